"""`make check` fails when a page, a command's help, or a link is no longer true."""

from pathlib import Path

import click
import pytest

from scripts import generate
from scripts.check import CHECKS
from scripts.documentation.reference_pages import render_commands
from servable.main import COMMANDS
from tests.checkouts import ROOT


def test_make_check_looks_for_stale_files_and_broken_pages() -> None:
    for check in ["scripts/generate.py", "tests.docs.check_pages"]:
        assert any(check in command for command in CHECKS.values())
    named = {f"## servable {command}" for command in COMMANDS}
    assert named <= set((ROOT / "docs/reference/commands.md").read_text().splitlines())


def test_a_generated_file_with_one_letter_changed_or_missing_is_stale(tmp_path: Path) -> None:
    wanted = {"docs/a.md": "a page\n", "docs/b.md": "a page\n", "docs/c.md": "a page\n"}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a page\n")
    (tmp_path / "docs" / "b.md").write_text("b page\n")
    assert sorted(generate.find_stale_files(tmp_path, wanted)) == ["docs/b.md", "docs/c.md"]


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
