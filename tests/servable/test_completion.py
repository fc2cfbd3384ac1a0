"""What bash, zsh, and fish complete: each runs the lines of docs/installing.md with the console script."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from servable.main import COMMANDS, servable
from tests.checkouts import ROOT
from tests.conftest import VALID

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
STARTS = {
    "bash": ["bash", "--norc", "-c"],
    "zsh": ["zsh", "-f", "-c"],
    "fish": ["fish", "--no-config", "-c"],
}
BEFORE = {"zsh": "autoload -Uz compinit; compinit -u -D\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "base.toml").write_text(VALID)
    for name in ("prod", "preview"):
        (environments / f"{name}.toml").write_text('extends = "base"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def documented_line(shell: str) -> str:
    """Return the line that docs/installing.md gives for the shell's start-up file."""
    page = (ROOT / "docs" / "installing.md").read_text()
    found = re.search(rf"^.*_SERVABLE_COMPLETE={shell}_source servable[^#\n]*", page, re.MULTILINE)
    assert found is not None
    return found[0]


def complete_in(shell: str, words: list[str], folder: Path) -> list[str]:
    """Return what a shell that has run the documented line completes for these words."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    last = shlex.quote(words[-1])
    asks = ASKS[shell].format(
        words=" ".join([*map(shlex.quote, words[:-1]), last]), line=shlex.quote(" ".join(words))
    )
    ran = subprocess.run(
        [*STARTS[shell], f"{BEFORE.get(shell, '')}{documented_line(shell)}\n{asks}"],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.stderr == ""
    return [line.partition("\t")[0] for line in ran.stdout.splitlines() if line]


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_environments_and_keys(shell: str, folder: Path) -> None:
    assert complete_in(shell, ["servable", "che"], folder) == ["check"]
    assert complete_in(shell, ["servable", "check", "pr"], folder) == ["preview", "prod"]
    key = ["servable", "check", "prod", "--set", "variants.primary.max_"]
    assert complete_in(shell, key, folder) == ["variants.primary.max_instances="]


def completed(*words: str) -> list[str]:
    completion = BashComplete(servable, {}, "servable", "_SERVABLE_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_that_takes_an_environment_completes_it(name: str, folder: Path) -> None:
    command = servable.get_command(servable.make_context("servable", [name]), name)
    assert command is not None
    takes = [
        parameter
        for parameter in command.params
        if "ENV" in str(parameter.metavar).replace("ENV.", "") and parameter.name != "sets"
    ]
    for parameter in takes:
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
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "tag", "v1"], check=True)
    assert completed("plan", "prod", "--against", "") == ["HEAD", "main", "v1"]
    assert completed("replay", "prod", "--against", "") == ["preview", "prod", "HEAD", "main", "v1"]
