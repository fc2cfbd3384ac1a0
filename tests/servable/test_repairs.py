"""Repairs of a broken project by a program that reads `--json` and follows the remedies literally."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infra.parameters.loading import load
from servable.main import servable
from tests.conftest import VALID, valid
from tests.packaging.wheelhouse import wheel
from tests.repairs import Finding, NotLiteralError, Repairs
from tests.servable.test_check_against import Commit

GOLDEN = """\
[models.ranker.golden]
request = "golden/request-rows.json"
answer = "golden/answer-rows.json"
"""
SCALED = "[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
VARIABLES = "[variants.primary.environment]\n"
GOOD = VALID + "max_instances = 2\n" + SCALED + GOLDEN
# What breaks the file: (what is replaced, by what). A repair brings back what the file said.
BROKEN = {
    "misspelt key": ("max_instances", "max_instnces"),
    "misspelt table": ("[variants.primary.scaling]", "[variants.primary.scalng]"),
    "misspelt type": ("ml.c5.xlarge", "ml.c5.xlage"),
    "misspelt model": ('model = "ranker"', 'model = "rankr"'),
    "misspelt region": ("eu-west-1", "eu-wst-1"),
    "misspelt folder": ('saved_model = "model"', 'saved_model = "modle"'),
    "misspelt file": ("request-rows.json", "request-row.json"),
    "unknown version": ('"2.20"', '"2.200"'),
    "account as a number": ('"111111111111"', "111111111111"),
    "number as a text": ("max_instances = 2", 'max_instances = "2"'),
    "boolean as a text": ("production = false", 'production = "false"'),
    "text without quotes": ('region = "eu-west-1"', "region = eu-west-1"),
    "misspelt base": ('account = "1', 'extends = "bse"\naccount = "1'),
    "acceptance of nothing": (SCALED, f"{SCALED}[acknowledge]\nmodel-unfilled = 'it is filled'\n"),
    "setting without effect": (SCALED, f"{SCALED}{VARIABLES}TF_DISABLE_MKL = '1'\n"),
}
# What a repair changes to something that passes, because nobody knows what was meant.
OUT_OF_BOUNDS = {
    "minimum above maximum": ("max_instances = 2", "max_instances = 2\nmin_instances = 4"),
    "number out of range": (SCALED, f"{SCALED}safety_factor = 1.5\n"),
    "misspelt acceptance": (
        "production = false",
        "production = true\nacknowledge = { capacity-singl = 'one is enough here' }",
    ),
    "one setting twice": (
        SCALED,
        f"{SCALED}[variants.primary.container]\ntfs_processes = 2\n"
        f"{VARIABLES}SAGEMAKER_TFS_INSTANCE_COUNT = '2'\n",
    ),
    "old name": (SCALED, f"{SCALED}[variants.primary.variables]\nLOG_LEVEL = 'info'\n"),
}


class InProcess(Repairs):
    """Repairs whose `servable` commands run in this process, which takes a tenth of the time."""

    def run(self, command: str) -> tuple[int, str]:
        words = shlex.split(command)
        assert words[0] == "servable"
        given = ["--project", str(self.root), *words[1:]]
        ran = CliRunner().invoke(servable, given, standalone_mode=False)
        self.errors = f"{ran.stderr}{ran.exception or ''}"
        return (2 if ran.exception else ran.return_value or 0), ran.stdout


def findings_of_check(parsed: Any) -> list[Finding]:
    """Return the errors, then the warnings."""
    shown = [each for each in parsed["prod"] if each["severity"] in ("error", "warning")]
    return sorted(shown, key=lambda each: each["severity"] != "error")


def write(project: Path, text: str) -> None:
    (project / "environments" / "prod.toml").write_text(text)


@pytest.fixture
def repairs(prod: Path) -> InProcess:
    (prod / "environments" / "base.toml").write_text("")
    write(prod, GOOD)
    return InProcess(prod)


def read(project: Path) -> Any:
    (prod,) = load(project, project / "environments")
    return valid(prod).environment


@pytest.mark.parametrize("name", [*BROKEN, *OUT_OF_BOUNDS])
def test_a_broken_file_says_again_what_it_said_or_something_that_passes(
    repairs: InProcess, name: str
) -> None:
    meant, change = read(repairs.root), (BROKEN | OUT_OF_BOUNDS)[name]
    assert change[0] in GOOD
    write(repairs.root, GOOD.replace(*change))
    assert findings_of_check(json.loads(repairs.run("servable check prod --json")[1]))
    parsed = repairs.repair("servable check prod", findings_of_check)
    assert (parsed["verdict"], bool(repairs.followed)) == ("holds", True)
    if name in BROKEN:
        assert read(repairs.root) == meant


@pytest.mark.long
def test_a_rejected_package_and_a_rejected_plan_are_repaired_from_their_own_json(
    repairs: InProcess, commit: Commit
) -> None:
    commit(GOOD)
    # A moved environment moves back as its plan says.
    write(repairs.root, GOOD.replace("eu-west-1", "us-east-1"))
    code, output = repairs.run("servable plan prod --against HEAD --json")
    (reason,) = json.loads(output)["reasons"]
    remedy = reason.partition("To change the first one instead, ")[2]
    repairs.follow({"file": "environments/prod.toml", "key": "", "remedy": remedy})
    assert (code, read(repairs.root).region) == (1, "eu-west-1")

    def errors(said: Any) -> list[Finding]:
        found = said["findings"] if isinstance(said, dict) else []
        return [each for each in found if each["severity"] == "error"]

    write(repairs.root, GOOD.replace(*BROKEN["misspelt key"]))
    plan = repairs.repair("servable plan prod --against HEAD", errors)
    assert plan["verdict"] == "nothing"
    write(repairs.root, GOOD.replace(*BROKEN["misspelt folder"]))
    repairs.repair("servable package prod", errors)
    assert repairs.followed[-2:] == ["did you mean max_instances?", "did you mean model?"]


@pytest.mark.long
def test_code_whose_packages_are_not_there_is_packed_as_check_says(repairs: InProcess) -> None:
    (repairs.root / "house").mkdir()
    wheel(repairs.root / "house", "plain")
    wanted = repairs.root / "code" / "requirements.txt"
    wanted.write_text("--no-index\n--find-links ../house\nplain\n")
    write(repairs.root, GOOD.replace("tensorflow", 'code = "code"\ntensorflow', 1))
    repairs.repair("servable check prod", findings_of_check)
    assert any("servable package prod" in remedy for remedy in repairs.followed)


def test_a_remedy_that_leaves_something_to_think_about_is_not_followed(repairs: InProcess) -> None:
    folder = "use a folder that contains version folders"
    for remedy in ("change it", "lower it, or choose a larger type", folder):
        with pytest.raises(NotLiteralError):
            repairs.follow({"file": "environments/prod.toml", "key": "region", "remedy": remedy})
