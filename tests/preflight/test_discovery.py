"""A rule is one class in a file of a folder, found without being listed; its name gives its ID."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.preflight.check import RULES
from infra.preflight.rule import discover_rules

RULE = """
from infra.preflight.rule import Rule
class {name}(Rule):
    def find_problems(self):
        yield self.build_finding("region", self.environment.region, "wrong", remedy="mend it")
"""


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> str:
    """A package with `files` in its folder `subject`, under a name that no other test has."""
    top = folder / f"rules_of_{folder.name}"
    (top / "subject").mkdir(parents=True)
    for init in (top, top / "subject"):
        (init / "__init__.py").touch()
    for name, text in files.items():
        (top / "subject" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return top.name


def test_a_rule_is_found_once_by_writing_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = RULE.format(name="RegionTooFar")
    again = f"from rules_of_{tmp_path.name}.subject.one import RegionTooFar  # noqa: F401"
    found = discover_rules(package(tmp_path, monkeypatch, one=text, two=again))
    assert [(rule.id, rule.acknowledgeable) for rule in found] == [("region-too-far", False)]
    ids = [rule.id for rule in RULES]
    assert ids == sorted(ids)


def test_two_rules_of_one_id_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RULE.format(name="RegionTooFar")
    twice = package(tmp_path, monkeypatch, one=text, two=text)
    with pytest.raises(ValueError, match=r"two rules have the id region-too-far, in .*one and"):
        discover_rules(twice)


@pytest.mark.long
def test_all_rules_are_imported_without_cdk_the_sdk_or_arrays() -> None:
    heavy = ("aws_cdk", "jsii", "boto3", "botocore", "numpy", "tensorflow")
    program = f"import sys, infra.preflight.check; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
