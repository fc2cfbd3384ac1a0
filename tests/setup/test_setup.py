"""What `make` installs, and what it says when a step fails."""

import json
import re
import tomllib

import pytest

from tests.checkouts import ROOT, run_in


def test_make_lists_its_targets_and_installs_once() -> None:
    lines = run_in(ROOT, "make").stdout.splitlines()
    listed = {match[1] for line in lines if (match := re.match(r"  make ([a-z-]+)", line))}
    assert {"demo", "test", "test-long", "check"} <= listed
    assert [line for line in lines if len(line.split(maxsplit=2)) < 3] == []
    assert "Nothing to be done" in run_in(ROOT, "make", "install").stdout
    assert "install: .venv/.tuning" in (ROOT / "Makefile").read_text()


@pytest.mark.long
def test_a_step_says_in_one_line_that_it_works_what_it_is_at_or_why_it_failed() -> None:
    build = ("env", "QUIETLY_SECONDS=1", "sh", "scripts/quietly.sh", "build the moon")
    ran = run_in(ROOT, *build[2:], "echo", "cheese")
    assert re.fullmatch(r"build the moon \.\.\. done, \d+ s\n", ran.stdout)

    ran = run_in(ROOT, *build, "sh", "-c", "echo laying stones; sleep 1.5")
    assert re.search(r"build the moon \.\.\. \n  \d s: laying stones done, \d s\n", ran.stdout)

    ran = run_in(ROOT, *build[2:], "sh", "-c", "echo no cheese; exit 3")
    assert ran.returncode == 1
    assert "no cheese" in ran.stderr
    assert 'The step "build the moon" failed (exit code 3)' in ran.stderr


def test_the_wheels_claim_the_systems_on_which_they_were_tried() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Linux|macOS|Windows) \| (\w+)", page, re.MULTILINE)
    assert len(rows) == 3
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = [one for one in project["classifiers"] if one.startswith("Operating System")]
    assert {one.rpartition(" ")[2].casefold() for one in claimed} == {
        system.casefold() for system, tried in rows if tried != "nothing"
    }


def test_every_given_package_is_pinned_and_explained_on_a_page() -> None:
    locks = [ROOT / "requirements.txt", *ROOT.glob("requirements/*.txt")]
    pins = "".join(file.read_text() for file in locks)
    for package in ("aws-cdk-lib", "constructs", "sagemaker", "boto3", "pytest", "cdk-nag"):
        assert re.search(rf"^{package}==", pins, re.MULTILINE)
        assert f"| {package} |" in (ROOT / "docs" / "installing.md").read_text()
    package = json.loads((ROOT / "package.json").read_text())
    assert package["devDependencies"]["aws-cdk"] == "2.1148.1"
