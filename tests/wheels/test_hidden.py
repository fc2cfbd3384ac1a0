"""Packages of the same names in other people's projects: told in one sentence, with the remedy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkouts import ROOT

pytestmark = pytest.mark.long


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in `folder`, which comes first on its path, and the project after it."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A project with a package infra of its own."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "__init__.py").write_text("")
    return tmp_path


def sentence(theirs: Path) -> str:
    return (
        f"{theirs / 'infra'}: this package hides the package 'infra' of Servable in {ROOT}; rename yours, "
        "for example to my_infra, or start Python with -P and without PYTHONPATH"
    )


def test_an_app_and_every_command_are_told_of_an_infra_of_their_own_until_it_is_renamed(
    theirs: Path,
) -> None:
    said = run(theirs, "-c", "import servable.constructs").stderr
    error = "servable.console.hidden.HiddenPackageError"
    assert said.splitlines()[-1] == f"{error}: {sentence(theirs)}"
    for words in (("servable", "check"), ("servable.app",)):
        ran = run(theirs, "-m", *words)
        assert (ran.returncode, ran.stderr) == (2, f"{sentence(theirs)}\n")
    (theirs / "infra").rename(theirs / "my_infra")
    assert run(theirs, "-m", "servable", "--help").returncode == 0
    (theirs / "stacks.py").write_text("")
    said = run(theirs, "-m", "servable.app").stderr
    assert said.startswith(f"{theirs / 'stacks.py'}: this package hides")


def test_a_folder_that_is_no_package_and_other_names_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    for name in ("local", "serving", "constructs_of_mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    assert run(tmp_path, "-m", "servable", "--help").returncode == 0
