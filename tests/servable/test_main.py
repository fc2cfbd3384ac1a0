"""Habits that every command shares: help, version, names, overrides, the project's folder, completion."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from servable import __version__
from servable.console.extras import MissingExtraError
from servable.main import COMMANDS, main, servable
from servable.project.environments import SET, Project
from servable.project.folder import find_state_folder
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable.test_check_against import git

# They write into the file, which does not have the overrides.
WRITE_THE_FILE = {"init", "pin"}
ARGUMENTS = {
    "golden": ["--from-captured", "captured"],
    "invoke": ["--body", "-"],
    "rehearse": ["--set", "traffic.profile=daily"],
    "replay": ["--captured", "captured"],
}
FOUND = "environments/prod.toml:11: variants.primary.instance_tpye: unknown key"


def command(name: str) -> click.Command:
    found = servable.get_command(click.Context(servable), name)
    assert found is not None
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(servable, arguments)


def test_a_command_that_cannot_do_its_work_ends_with_2(prod: Path) -> None:
    (prod / "environments" / "prod.toml").write_text("nothing = 1")
    with pytest.raises(SystemExit, match="2"):
        main(["verify", "prod"])


def test_help_and_version_are_options_and_words() -> None:
    ran = CliRunner().invoke(servable, ["local", "--help"], terminal_width=80)
    assert "..." not in ran.output.partition("Commands:")[2]
    assert answer("version") == answer("--version") == (0, f"servable {__version__}\n")
    assert answer("help", "check") == answer("check", "--help")
    assert answer("help") == answer("--help")


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
        code, said = answer(*words)
        assert (code, f"did you mean {meant}?" in said.lower().replace("'", "")) == (2, True)


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
    assert completed("c") == ["check", "cost"]


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


def answer(*words: str) -> tuple[int, str]:
    ran = run(*words)
    return ran.exit_code, ran.output


def test_what_other_programs_do_is_answered_with_their_command(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prod / "programs").mkdir()
    (prod / "programs" / "cdk").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(prod / "programs"))
    for verb in ("deploy", "diff", "destroy"):
        code, said = answer(verb, "prod", "--require-approval", "never")
        assert (code, said.endswith(f"run:\n    cdk {verb} 'prod/*'\n")) == (2, True), said
    _, said = answer("deploy", "--set", "prod.region=us-east-1")
    assert "    cdk deploy 'prod/*' -c prod.region=us-east-1\n" in said
    (prod / "programs" / "cdk").unlink()
    assert "    npx cdk deploy 'prod/*'\n" in answer("deploy")[1]
    code, said = answer("logs", "prod")
    tail = "aws logs tail /aws/sagemaker/Endpoints/ranker --follow --region eu-west-1"
    assert (code, said.endswith(f"run:\n    {tail}\n")) == (2, True), said
    (prod / "environments" / "dev.toml").write_text(VALID)
    code, said = answer("deploy")
    assert (code, said.count("npx cdk deploy '"), "one of these" in said) == (2, 2, True)
    code, said = answer("deploy", "pord")
    assert (code, "did you mean prod?" in said) == (2, True)


# --- which project a command is about: the one that somebody stands in, or --project


@pytest.fixture
def broken(project: Path) -> Path:
    """A project whose file does not load: what is said names the file from the project."""
    text = VALID.replace("instance_type", "instance_tpye")
    (project / "environments" / "prod.toml").write_text(text)
    return project


def test_a_project_is_found_upwards_and_keeps_what_runs_in_it(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for inside in [".", "environments", "model/1", "code"]:
        monkeypatch.chdir(broken / inside)
        assert run("check").stderr.startswith(FOUND)
    assert find_state_folder() == broken / ".servable"


def test_a_project_can_be_named_from_anywhere_and_goes_before_the_one_around(
    broken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for command in [["check"], ["cost", "prod"], ["serve", "prod"], ["verify", "prod"]]:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert FOUND.partition(": ")[2] in run("--project", str(broken), *command).stderr

    other = tmp_path_factory.mktemp("other")
    (other / "environments").mkdir()
    (other / "environments" / "dev.toml").write_text("")
    monkeypatch.chdir(other)
    assert FOUND in run("--project", str(broken), "check", "prod").stderr


def test_outside_of_a_project_it_is_said_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--project", str(tmp_path / "none"), "check").exit_code == 2

    monkeypatch.chdir(tmp_path)
    ran = run("check")
    assert (ran.exit_code, "`servable new DIRECTORY`" in ran.stderr) == (2, True)

    for folder in ("environments", "mine"):
        (tmp_path / folder).mkdir()
    (tmp_path / "environments" / "science.yml").write_text("name: science\n")
    monkeypatch.chdir(tmp_path / "mine")
    assert find_state_folder() == tmp_path / "mine" / ".servable"


def test_environments_of_a_project_may_lie_elsewhere(
    broken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("shared") / "environments"
    (broken / "environments").rename(elsewhere)
    (broken / "environments").symlink_to(elsewhere)
    monkeypatch.chdir(broken / "code")
    assert run("check").stderr.startswith(FOUND)
    (broken / "more").mkdir()
    (elsewhere / "prod.toml").rename(broken / "more" / "prod.toml")
    (elsewhere / "dev.toml").write_text("")
    ran = run("check", "prod", "--environments", "more")
    assert ran.stderr.startswith(FOUND.replace("environments", "more"))


def test_a_project_without_an_environment_is_told_what_writes_the_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert "`servable init SAVED_MODEL` creates one" in run("check").stderr
    said = run("cost", "prod").stderr
    assert "there is no environment 'prod', and the folder has no others; `servable init" in said


def test_a_key_and_an_environment_are_named_alike_with_and_without_a_set_key(prod: Path) -> None:
    for option in ["endpoint.name=x", "prod.endpoint.name=x"]:
        (loaded,) = Project("environments", (option,)).load_all("prod")
        assert loaded.overrides == {"endpoint.name": "x"}
    with pytest.raises(click.UsageError, match="write --set prod.region=x to set the key of prod"):
        Project("environments", ("region=x",)).load_all()
    problem = "there is no environment 'prdo'; allowed: prod; did you mean prod?"
    for command in ["check", "plan", "package", "cost"]:
        for options in [[], ["--set", "region=us-east-1"]]:
            said = run(command, "prdo", *options).stderr
            assert said.rstrip().endswith(f"Error: {problem}")


# --- what bash, zsh, and fish complete: each runs the lines of docs/installing.md with the console script

# How each shell asks the function that `servable` defined, without a terminal.
ASKS = {
    "bash": """
        COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _servable_completion servable; printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compadd() {{ print -l -- $completions }}
        _describe() {{ print -l -- ${{completions_with_descriptions%%:*}} }}
        words=({words}); CURRENT=$#words; _servable_completion
    """,
    "fish": "complete --do-complete {line}",
}
STARTS = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}
BEFORE = {"zsh": "autoload -Uz compinit; compinit -u -D\n"}


@pytest.fixture
def folder(prod: Path) -> Path:
    """The working folder, with the environments prod and preview."""
    files = prod / "environments"
    (files / "prod.toml").rename(files / "base.toml")
    for name in ("prod", "preview"):
        (files / f"{name}.toml").write_text('extends = "base"\n')
    return prod


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_environments_and_keys(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    page = (ROOT / "docs" / "installing.md").read_text()
    documented = re.search(
        rf"^.*_SERVABLE_COMPLETE={shell}_source servable[^#\n]*", page, re.MULTILINE
    )
    assert documented is not None

    def complete(*words: str) -> list[str]:
        """Return what the shell completes after the line that docs/installing.md gives for it."""
        asks = ASKS[shell].format(words=shlex.join(words), line=shlex.quote(" ".join(words)))
        ran = subprocess.run(
            [shell, *STARTS[shell], "-c", f"{BEFORE.get(shell, '')}{documented[0]}\n{asks}"],
            env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.stderr == ""
        return [line.partition("\t")[0] for line in ran.stdout.splitlines() if line]

    assert complete("servable", "che") == ["check"]
    assert complete("servable", "check", "pr") == ["preview", "prod"]
    key = ("servable", "check", "prod", "--set", "variants.primary.max_")
    assert complete(*key) == ["variants.primary.max_instances="]


def completed(*words: str) -> list[str]:
    completion = BashComplete(servable, {}, "servable", "_SERVABLE_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_that_takes_an_environment_completes_it(name: str, folder: Path) -> None:
    for parameter in command(name).params:
        if "ENV" in str(parameter.metavar).replace("ENV.", "") and parameter.name != "sets":
            option = parameter.opts if parameter.param_type_name == "option" else []
            assert completed(name, *option, "pr")[:2] == ["preview", "prod"], parameter.name


def test_keys_and_revisions_are_completed_for_the_environment_that_is_named(folder: Path) -> None:
    assert completed("check", "--set", "") == ["preview.", "prod."]
    assert completed("check", "prod", "preview", "--set", "pro") == ["prod."]
    assert completed("check", "--set", "prod.alarms.p99") == ["prod.alarms.p99_latency_ms="]
    assert completed("plan", "prod", "--set=alarms.p99") == ["alarms.p99_latency_ms="]
    assert completed("plan", "other", "--set", "alarms.p99") == []
    (folder / "other" / "environments").mkdir(parents=True)
    (folder / "other" / "environments" / "dev.toml").write_text("")
    assert completed("--project", "other", "check", "") == ["dev"]

    assert completed("plan", "prod", "--against", "") == []
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    git(folder, "tag", "v1")
    assert completed("plan", "prod", "--against", "") == ["HEAD", "main", "v1"]
    assert completed("replay", "prod", "--against", "") == ["preview", "prod", "HEAD", "main", "v1"]
