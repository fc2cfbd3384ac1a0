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


def reads_environments(name: str) -> bool:
    return any("--environments" in parameter.opts for parameter in command(name).params)


def test_a_command_that_cannot_do_its_work_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "prod.toml").write_text("nothing = 1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["verify", "prod"])
    assert ended.value.code == 2


def test_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(servable, ["--version"]).output == f"servable {__version__}\n"


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), ["local", "up"]])
def test_h_is_help(words: list[str]) -> None:
    group: click.Command = servable
    for word in words:
        assert isinstance(group, click.Group)
        group = group.get_command(click.Context(group), word) or servable
        # Click keeps the option of the first call in this process, which another test made without -h.
        group._help_option = None
    assert CliRunner().invoke(servable, [*words, "-h"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["chekc"], "check"), (["check", "--agianst", "x"], "--against"), (["local", "upp"], "up")],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    words: list[str], meant: str
) -> None:
    ran = CliRunner().invoke(servable, words)
    said = ran.output.lower().replace("'", "")
    assert (ran.exit_code, f"did you mean {meant}?" in said) == (2, True)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_set_is_one_option_of_every_command_that_reads_an_environment(name: str) -> None:
    given = [option.help for option in command(name).params if "--set" in option.opts]
    shared = SET(click.Command("x", callback=None)).params[0].help
    expected = [shared] if reads_environments(name) and name not in WRITE_THE_FILE else []
    assert given == expected


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WRITE_THE_FILE))
def test_an_override_reaches_the_environment(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not reads_environments(name):
        pytest.skip("reads no environment")
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    monkeypatch.setattr(
        "servable.doctor.command.check_machine", lambda root: []
    )  # it starts programs
    arguments = [name, "prod", *ARGUMENTS.get(name, []), "--set", "colour=1"]
    ran = CliRunner().invoke(servable, arguments, input=b"{}")
    assert "colour" in ran.output


def test_a_shell_completes_commands_without_importing_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(importlib, "import_module")
    completion = BashComplete(servable, {}, "servable", "_SERVABLE_COMPLETE")
    assert [item.value for item in completion.get_completions([], "c")] == [
        "check",
        "cost",
    ]


def test_the_help_of_local_is_whole_at_80_columns() -> None:
    ran = CliRunner().invoke(servable, ["local", "--help"], terminal_width=80)
    assert "..." not in ran.output.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("file", "install"),
    [
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("other.toml", "pip install"),
    ],
)
def test_an_extra_is_installed_by_what_installed_the_command(
    file: str, install: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    (tmp_path / file).touch()
    monkeypatch.setattr("model_packaging.refusal.HOME", tmp_path)
    missing = MissingExtraError("servable load", "locust", "tune")
    assert str(missing).endswith(f": {install} 'servable-endpoints[tune]'")


def test_a_clone_installs_an_extra_with_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert str(MissingExtraError("servable load", "locust", "tune")).endswith(": make install")
    monkeypatch.chdir(tmp_path)
    missing = MissingExtraError("servable load", "locust", "tune")
    assert str(missing).endswith(f": make -C {ROOT} install")


def answer(words: list[str]) -> tuple[int, str]:
    ran = CliRunner().invoke(servable, words)
    return ran.exit_code, ran.output


def test_what_the_cdk_cli_does_is_answered_with_its_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    programs = project / "programs"
    programs.mkdir()
    (programs / "cdk").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(programs))
    (project / "environments" / "prod.toml").write_text(VALID)
    for verb in ("deploy", "diff", "destroy"):
        code, said = answer([verb, "prod", "--require-approval", "never"])
        assert (code, said.endswith(f"run:\n    cdk {verb} 'prod/*'\n")) == (2, True), said
    assert (
        "    cdk deploy 'prod/*' -c prod.region=us-east-1\n"
        in answer(["deploy", "--set", "prod.region=us-east-1"])[1]
    )
    (programs / "cdk").unlink()
    assert "    npx cdk deploy 'prod/*'\n" in answer(["deploy"])[1]
    (project / "environments" / "dev.toml").write_text(VALID)
    code, said = answer(["deploy"])
    assert (code, said.count("npx cdk deploy '"), "one of these" in said) == (2, 2, True)
    assert (
        answer(["deploy", "pord"])[0],
        "did you mean prod?" in answer(["deploy", "pord"])[1],
    ) == (2, True)


def test_logs_are_answered_with_the_group_of_the_endpoint(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "environments" / "prod.toml").write_text(VALID)
    code, said = answer(["logs", "prod"])
    tail = "aws logs tail /aws/sagemaker/Endpoints/ranker --follow --region eu-west-1"
    assert (code, said.endswith(f"run:\n    {tail}\n")) == (2, True), said


def test_help_and_version_are_words_too() -> None:
    assert answer(["version"]) == (0, f"servable {__version__}\n")
    assert answer(["help", "check"]) == answer(["check", "--help"])
    assert answer(["help"]) == answer(["--help"])
