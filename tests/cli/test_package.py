"""`servable package ENV`: what went in, before anything is deployed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.package import package
from tests.conftest import VALID
from tests.packaging.wheelhouse import wheel


@pytest.fixture
def prod(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With code that needs one package, of which only a folder has a wheel."""
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    (project / "environments" / "prod.toml").write_text(text)
    (project / "code" / "requirements.txt").write_text("plain\n")
    (project / "house").mkdir()
    wheel(project / "house", "plain")
    monkeypatch.chdir(project)
    return project


def run(*arguments: str) -> Result:
    return CliRunner().invoke(package, arguments, standalone_mode=False, color=False)


def test_it_shows_the_signature(prod: Path) -> None:
    said = run("prod", "--find-links", "house").stdout
    rows = [line.split() for line in said.splitlines()]
    assert ["serving_default", "in", "feat_ids", "int64", "[n,", "39]"] in rows


def test_it_locks_and_vendors_what_the_code_needs(prod: Path) -> None:
    said = run("prod", "--find-links", "house").stdout
    assert "vendored: plain-1.0-py3-none-any.whl" in said


def test_a_second_run_packs_nothing_again(prod: Path) -> None:
    run("prod", "--find-links", "house")
    assert "packed before" in run("prod", "--find-links", "house").stdout


def test_json_says_what_went_in(prod: Path) -> None:
    (said,) = json.loads(run("prod", "--find-links", "house", "--json").stdout)
    assert {"code/inference.py", "code/lib/plain.py", "ranker/1/saved_model.pb"} <= set(
        said["entries"]
    )


def test_afterwards_the_environment_is_clean(prod: Path) -> None:
    run("prod", "--find-links", "house")
    from cli.check import check

    assert CliRunner().invoke(check, ["prod"], standalone_mode=False).return_value == 0


def test_a_package_that_cannot_be_had_is_named(prod: Path) -> None:
    (prod / "code" / "requirements.txt").write_text("nowhere\n")
    ran = run("prod", "--find-links", "house")
    assert (ran.return_value, "nowhere" in ran.stderr) == (1, True)


def test_findings_that_it_does_not_mend_stop_it(prod: Path) -> None:
    (prod / "code" / "inference.py").write_text("x = 1\n")
    ran = run("prod", "--find-links", "house")
    assert (ran.return_value, "defines no handler" in ran.stderr) == (1, True)
