"""`servable package ENV`: what went in, before anything is deployed."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from servable.check.command import check
from servable.package.command import package
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.packaging.wheelhouse import wheel
from tests.preflight.graphs import Graph

pytestmark = pytest.mark.long


HOUSE = ("prod", "--find-links", "house")


@pytest.fixture(autouse=True)
def wheels(prod: Path) -> None:
    """Give prod code that needs one package, of which only a folder has a wheel."""
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    (prod / "environments" / "prod.toml").write_text(text)
    (prod / "code" / "requirements.txt").write_text("plain\n")
    (prod / "house").mkdir()
    wheel(prod / "house", "plain")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(package, arguments, standalone_mode=False, color=False)


def test_it_vendors_packs_once_and_shows_the_signature(prod: Path) -> None:
    said = run(*HOUSE).stdout
    rows = [line.split() for line in said.splitlines()]
    assert ["serving_default", "in", "feat_ids", "int64", "[n,", "39]"] in rows
    assert "vendored: plain-1.0-py3-none-any.whl" in said
    assert "packed before" in run(*HOUSE).stdout
    (parsed,) = json.loads(run(*HOUSE, "--json").stdout)
    own = {"code/inference.py", "ranker/1/saved_model.pb"}
    assert own | {"code/lib/plain.py"} <= {*parsed["entries"]}
    assert CliRunner().invoke(check, ["prod"], standalone_mode=False).return_value == 0


def test_the_users_files_are_listed_before_those_of_packages(prod: Path) -> None:
    def list_(*arguments: str) -> list[str]:
        return [line.split()[-1] for line in run(*arguments).stdout.splitlines()]

    names = [f"a{number}" for number in range(20)]
    for name in names:
        wheel(prod / "house", name)
    (prod / "code" / "requirements.txt").write_text("\n".join(names))
    own = ["code/inference.py", "ranker/1/saved_model.pb"]
    assert set(own) <= set(list_(*HOUSE))
    (archive,) = (prod / ".servable" / "archives").glob("*.tar.gz")
    listed = list_("--list", str(archive))
    packages = [at for at, name in enumerate(listed) if "code/lib/" in name]
    assert max(listed.index(name) for name in own) < packages[0] == len(listed) - len(packages)


def test_findings_that_it_does_not_correct_stop_it(prod: Path) -> None:
    for file, text, said in (
        ("requirements.txt", "nowhere\n", "nowhere"), ("inference.py", "x = 1\n", "defines no handler")
    ):  # fmt: skip
        before = (prod / "code" / file).read_text()
        (prod / "code" / file).write_text(text)
        ran = run(*HOUSE)
        assert (ran.return_value, said in ran.stderr) == (1, True)
        (prod / "code" / file).write_text(before)
    (prod / "code" / "inference.py").write_text("import os.tensorflow\n")
    assert len(json.loads(run(*HOUSE, "--json").stdout)["problems"]) == 2


def test_refusals_are_json_and_warnings_or_nothing_to_pack_are_said(prod: Path) -> None:
    (prod / "none.tar.gz").write_bytes(b"")
    (problem,) = json.loads(run("--verify", "none.tar.gz", "--json").stdout)["problems"]
    assert problem.startswith("none.tar.gz: is not a complete .tar.gz")

    file = prod / "environments" / "prod.toml"
    file.write_text(file.read_text().replace("[variants", 'install = "at start"\n[variants', 1))
    assert "warning: environments/prod.toml: models.ranker.install" in run("prod").stderr

    artifact = f'artifact = {{ uri = "s3://models/1/model.tar.gz", sha256 = "{"0" * 64}" }}'
    text = VALID.replace('saved_model = "model"', artifact)
    (prod / "environments" / "prod.toml").write_text(text)
    assert run("prod").stdout == "prod: every model is already in S3, so there is nothing to pack\n"


def _archive(project: Path, op: str) -> str:
    """An archive whose graph has one operation more."""
    graph = Graph(project / "other" / "1")
    graph.served(op)
    graph.write()
    with tarfile.open(project / "other.tar.gz", "w:gz") as archive:
        archive.add(graph.folder, "1")
    return "other.tar.gz"


def test_an_archive_is_verified_against_the_image(prod: Path) -> None:
    ran = run("--verify", _archive(prod, "MyOp"))
    assert (ran.return_value, ran.stderr.partition(": TensorFlow Serving 2.20 has no")[0]) == (
        1, "1/saved_model.pb: MyOp (node 'planted') in function '__inference_serve'")  # fmt: skip
    said = run("--verify", _archive(prod, "NoOp")).stdout
    assert [line.split(":")[0] for line in said.splitlines()[-3:]] == [
        "  no problem found for the image of TensorFlow 2.20 in the parts that were checked",
        "  checked",
        "  not checked",
    ]
    archive = _archive(prod, "XlaSetBound")
    assert run("--verify", archive).return_value == 0
    assert run("prod", "--verify", archive).return_value == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_name_is_escaped_for_the_terminal_and_a_full_output_names_its_remedy(prod: Path) -> None:
    (prod / "code" / "é.txt").write_bytes(b"")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "servable", "package", *HOUSE]

    def pack_into(output: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )

    assert r"code/\xe9.txt" in pack_into(subprocess.PIPE).stdout
    with Path("/dev/full").open("w") as full:
        said = pack_into(full)
    assert said.returncode == 2
    for part in ("servable package: ", f"MB in {prod}", "make room there"):
        assert part in said.stderr
