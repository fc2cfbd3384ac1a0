"""Habits that every command shares: help, version, completion, overrides, unknown names."""

import importlib
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from servable import __version__
from servable.console.extras import MissingExtraError
from servable.main import COMMANDS, main, servable
from servable.project.environments import SET
from tests.checkouts import ROOT
from tests.conftest import VALID

# They write into the file, which does not have the overrides.
WRITE_THE_FILE = {"init", "pin"}
ARGUMENTS = {
    "golden": ["--from-captured", "captured"],
    "invoke": ["--body", "-"],
    "rehearse": ["--set", "traffic.profile=daily"],
    "replay": ["--captured", "captured"],
}


def command(name: str) -> click.Command:
    found = servable.get_command(click.Context(servable), name)
    assert found is not None
    return found


def test_a_command_that_cannot_do_its_work_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "prod.toml").write_text("nothing = 1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["verify", "prod"])


def test_help_and_version_are_options_and_words() -> None:
    assert CliRunner().invoke(servable, ["--version"]).output == f"servable {__version__}\n"
    ran = CliRunner().invoke(servable, ["local", "--help"], terminal_width=80)
    assert "..." not in ran.output.partition("Commands:")[2]

    assert answer(["version"]) == (0, f"servable {__version__}\n")
    assert answer(["help", "check"]) == answer(["check", "--help"])
    assert answer(["help"]) == answer(["--help"])


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), ["local", "up"]])
def test_h_is_help(words: list[str]) -> None:
    group: click.Command = servable
    for word in words:
        assert isinstance(group, click.Group)
        group = group.get_command(click.Context(group), word) or servable
        # Click keeps the option of the first call in this process, which another test made without -h.
        group._help_option = None
    assert CliRunner().invoke(servable, [*words, "-h"]).exit_code == 0


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    for words, meant in (
        (["chekc"], "check"),
        (["check", "--agianst", "x"], "--against"),
        (["local", "upp"], "up"),
    ):
        ran = CliRunner().invoke(servable, words)
        said = ran.output.lower().replace("'", "")
        assert (ran.exit_code, f"did you mean {meant}?" in said) == (2, True)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_set_is_one_option_that_reaches_the_environment_of_every_command_that_reads_one(
    name: str, prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = command(name).params
    given = [option.help for option in options if "--set" in option.opts]
    reads = any("--environments" in option.opts for option in options)
    if not reads or name in WRITE_THE_FILE:
        assert given == []
        return
    assert given == [SET(click.Command("x", callback=None)).params[0].help]
    # It starts programs.
    monkeypatch.setattr("servable.doctor.command.check_machine", lambda root: [])
    arguments = [name, "prod", *ARGUMENTS.get(name, []), "--set", "colour=1"]
    assert "colour" in CliRunner().invoke(servable, arguments, input=b"{}").output


def test_a_shell_completes_commands_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(importlib, "import_module")
    completion = BashComplete(servable, {}, "servable", "_SERVABLE_COMPLETE")
    assert [item.value for item in completion.get_completions([], "c")] == ["check", "cost"]


def test_an_extra_is_installed_by_what_installed_the_command_in_a_clone_with_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remedy() -> str:
        return str(MissingExtraError("servable load", "locust", "tune")).rpartition(": ")[2]

    monkeypatch.chdir(ROOT)
    assert remedy() == "make install"
    monkeypatch.chdir(tmp_path)
    assert remedy() == f"make -C {ROOT} install"
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("model_packaging.refusal.HOME", tmp_path)
    for file, install in (
        ("other.toml", "pip install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("uv-receipt.toml", "uv tool install"),
    ):
        (tmp_path / file).touch()
        assert remedy() == f"{install} 'servable-endpoints[tune]'"
        (tmp_path / file).unlink()


def answer(words: list[str]) -> tuple[int, str]:
    ran = CliRunner().invoke(servable, words)
    return ran.exit_code, ran.output


def test_what_other_programs_do_is_answered_with_their_command(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prod / "programs").mkdir()
    (prod / "programs" / "cdk").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(prod / "programs"))
    for verb in ("deploy", "diff", "destroy"):
        code, said = answer([verb, "prod", "--require-approval", "never"])
        assert (code, said.endswith(f"run:\n    cdk {verb} 'prod/*'\n")) == (2, True), said
    _, said = answer(["deploy", "--set", "prod.region=us-east-1"])
    assert "    cdk deploy 'prod/*' -c prod.region=us-east-1\n" in said
    (prod / "programs" / "cdk").unlink()
    assert "    npx cdk deploy 'prod/*'\n" in answer(["deploy"])[1]
    code, said = answer(["logs", "prod"])
    tail = "aws logs tail /aws/sagemaker/Endpoints/ranker --follow --region eu-west-1"
    assert (code, said.endswith(f"run:\n    {tail}\n")) == (2, True), said
    (prod / "environments" / "dev.toml").write_text(VALID)
    code, said = answer(["deploy"])
    assert (code, said.count("npx cdk deploy '"), "one of these" in said) == (2, 2, True)
    code, said = answer(["deploy", "pord"])
    assert (code, "did you mean prod?" in said) == (2, True)
