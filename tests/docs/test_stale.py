"""`make check` fails when a page, a command's help, or a link is no longer true."""

import shutil
from pathlib import Path

import click
import pytest

from scripts import generate
from scripts.check import CHECKS
from scripts.documentation.reference_pages import render_commands
from servable.main import COMMANDS
from tests.checkouts import ROOT


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    """What the sources write now, by file."""
    return {name: text() for name, text in generate.GENERATED.items()}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the generated files to spoil."""
    for name in generate.GENERATED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("check", ["scripts/generate.py", "tests.docs.check_pages"])
def test_make_check_runs_it(check: str) -> None:
    assert any(check in command for command in CHECKS.values())


def test_no_generated_file_is_stale(wanted: dict[str, str]) -> None:
    assert generate.find_stale_files(ROOT, wanted) == []


@pytest.mark.parametrize("name", sorted(generate.GENERATED))
def test_a_generated_file_with_one_letter_changed_is_stale(
    name: str, copied: Path, wanted: dict[str, str]
) -> None:
    file = copied / name
    file.write_text(file.read_text().replace("a", "b", 1))
    assert generate.find_stale_files(copied, wanted) == [name]


@pytest.mark.parametrize("name", sorted(generate.GENERATED))
def test_a_generated_file_that_is_not_there_is_stale(
    name: str, copied: Path, wanted: dict[str, str]
) -> None:
    (copied / name).unlink()
    assert generate.find_stale_files(copied, wanted) == [name]


def test_a_stale_file_makes_the_check_fail_and_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(generate, "GENERATED", {"docs/page.md": lambda: "new\n"})
    said = generate.main(["--check"], tmp_path)
    assert said == "stale: docs/page.md; run: python scripts/generate.py"


def test_another_option_of_a_command_changes_the_page_of_commands() -> None:
    @click.group(name="servable")
    def group() -> None: ...

    def page(*options: str) -> str:
        params = [click.Option([option]) for option in options]
        group.commands = {"check": click.Command("check", params=list(params))}
        return render_commands(group)

    assert page("--json") != page("--json", "--explain")


def test_every_command_is_on_the_page_of_commands(wanted: dict[str, str]) -> None:
    named = {f"## servable {command}" for command in COMMANDS}
    assert named <= set(wanted["docs/reference/commands.md"].splitlines())
