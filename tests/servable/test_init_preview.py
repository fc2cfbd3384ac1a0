"""`servable init --from ENV --name NEW`: an environment beside another, for a while."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check, select_errors
from servable.init.command import init
from tests.conftest import VALID, valid

NOTIFIED = VALID.replace('"ranker"', '"ranker-dev"', 1) + '[alarms]\nnotify = ["a@example.com"]\n'


@pytest.fixture
def dev(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "dev.toml").write_text(NOTIFIED)
    monkeypatch.chdir(project)
    return project


def run(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments, standalone_mode=False, color=False)


def loaded(project: Path, name: str) -> ValidFile:
    files = load(project, project / "environments")
    return valid(next(file for file in files if file.name == name))


@pytest.fixture
def made(dev: Path) -> ValidFile:
    assert run("--from", "dev", "--name", "pr42", "--expires-in-days", "3").return_value == 0
    return loaded(dev, "pr42")


def test_a_preview_is_the_environment_with_an_endpoint_of_its_own(
    made: ValidFile, dev: Path
) -> None:
    assert made.environment.endpoint.name == "ranker-pr42"
    expires = str(date.today() + timedelta(days=3))
    assert made.environment.tags == {"preview-of": "dev", "expires": expires}
    assert made.environment.alarms.notify == []
    assert select_errors(check(made)) == []
    environment = loaded(dev, "dev").environment
    assert made.environment.variants == environment.variants


def test_what_is_there_is_not_written_over(dev: Path) -> None:
    run("--from", "dev", "--name", "pr42")
    before = (dev / "environments" / "pr42.toml").read_text()
    ran = run("--from", "dev", "--name", "pr42", "--expires-in-days", "9")
    assert (ran.return_value, (dev / "environments" / "pr42.toml").read_text()) == (1, before)


def test_a_name_that_cannot_be_an_environments_is_refused(dev: Path) -> None:
    for name in ["../up", "base", "x-base", "4", "under_score"]:
        assert run("--from", "dev", "--name", name).return_value == 1
    assert str(run("--from", "dev").exception) == (
        "--from requires a name for the preview, for example --name pr42"
    )


def test_a_preview_that_would_be_refused_is_not_written(dev: Path) -> None:
    text = (dev / "environments" / "dev.toml").read_text()
    (dev / "environments" / "dev.toml").write_text(text.replace("ml.c5.xlarge", "ml.none"))
    ran = run("--from", "dev", "--name", "pr42")
    assert (ran.return_value, "ml.none" in ran.stderr) == (1, True)
    assert not (dev / "environments" / "pr42.toml").exists()


def test_a_long_name_stays_within_what_sagemaker_takes(dev: Path) -> None:
    (dev / "environments" / "dev.toml").write_text(NOTIFIED.replace("ranker-dev", "r" * 63))
    run("--from", "dev", "--name", "pr42")
    environment = loaded(dev, "pr42").environment
    assert environment.endpoint.name == f"{'r' * 58}-pr42"


def test_a_preview_of_what_is_protected_can_be_destroyed(dev: Path) -> None:
    protected = NOTIFIED.replace('name = "ranker-dev"', 'name = "ranker-dev"\nprotect = true')
    (dev / "environments" / "dev.toml").write_text(protected)
    run("--from", "dev", "--name", "pr42")
    environment = loaded(dev, "pr42").environment
    assert environment.endpoint.protect is False


def test_it_is_json_for_programs(dev: Path) -> None:
    said = json.loads(run("--from", "dev", "--name", "pr42", "--json").stdout)
    assert (said["endpoint"], said["findings"]) == ("ranker-pr42", [])


def test_two_environments_with_one_endpoint_are_both_refused(dev: Path) -> None:
    (dev / "environments" / "other.toml").write_text(NOTIFIED.replace("ranker-dev", "Ranker-Dev"))
    found = [
        error for name in ("dev", "other") for error in select_errors(check(loaded(dev, name)))
    ]
    assert [(error.file, error.problem) for error in found] == [
        (
            "environments/dev.toml",
            "ranker-dev is also the endpoint of environments/other.toml, in the same account and "
            "region",
        ),
        (
            "environments/other.toml",
            "Ranker-Dev is also the endpoint of environments/dev.toml, in the same account and "
            "region",
        ),
    ]


def test_an_inherited_name_stops_only_the_copy_in_the_same_account_and_region(dev: Path) -> None:
    (dev / "environments" / "copy.toml").write_text('extends = "dev"\n')
    found = {name: len(select_errors(check(loaded(dev, name)))) for name in ("dev", "copy")}
    assert found == {"dev": 0, "copy": 1}
    for other in ['account = "222222222222"', 'region = "us-east-1"']:
        (dev / "environments" / "copy.toml").write_text(f'extends = "dev"\n{other}\n')
        assert select_errors(check(loaded(dev, "copy"))) == []
