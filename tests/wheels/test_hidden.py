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


def test_an_app_with_an_infra_of_its_own_is_told_so(theirs: Path) -> None:
    said = run(theirs, "-c", "import servable.constructs").stderr
    assert (
        said.splitlines()[-1] == f"servable.console.hidden.HiddenPackageError: {sentence(theirs)}"
    )


def test_the_command_says_so_too(theirs: Path) -> None:
    ran = run(theirs, "-m", "servable", "check")
    assert (ran.returncode, ran.stderr) == (2, f"{sentence(theirs)}\n")


def test_so_does_the_app_of_a_project(theirs: Path) -> None:
    ran = run(theirs, "-m", "servable.app")
    assert (ran.returncode, ran.stderr) == (2, f"{sentence(theirs)}\n")


def test_a_module_in_the_place_of_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "stacks.py").write_text("")
    assert run(tmp_path, "-m", "servable.app").stderr.startswith(
        f"{tmp_path / 'stacks.py'}: this package hides"
    )


def test_a_folder_that_is_no_package_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    assert run(tmp_path, "-m", "servable", "--help").returncode == 0


def test_the_remedy_mends_it(theirs: Path) -> None:
    (theirs / "infra").rename(theirs / "my_infra")
    assert run(theirs, "-m", "servable", "--help").returncode == 0


def test_packages_of_other_names_are_nobodys_business(tmp_path: Path) -> None:
    for name in ("local", "serving", "constructs_of_mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    assert run(tmp_path, "-m", "servable", "--help").returncode == 0
