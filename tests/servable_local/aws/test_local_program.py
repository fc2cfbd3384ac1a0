"""`servable-local`: the program of the local AWS alone, without the command `servable`."""

import subprocess
import sys
from pathlib import Path

import pytest

from servable_local.aws.command import main
from tests.checkouts import ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, where no local AWS runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_where_none_runs_exits_1_and_names_its_own_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["status"]) == 1
    assert capsys.readouterr().out == "local AWS: not running; `servable-local up` starts it\n"


def test_down_where_none_runs_exits_0(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["down"]) == 0
    assert capsys.readouterr().out == f"local AWS: not running for {folder}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "70000"], "'--port': 70000 is not in the range 0<=x<=65535."),
        (["--minute", "0.01"], "'--minute': 0.01 is not in the range 0.1<=x<=60.0."),
        (["--containers", "65"], "'--containers': 65 is not in the range 0<=x<=64."),
    ],
)
def test_a_value_outside_of_its_range_exits_2_and_says_the_range(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(["up", *words]), said in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize(
    ("environment", "program"),
    [
        ({"UV": "/bin/uv"}, "uvx servable-local"),
        ({"UV": "/bin/uv", "VIRTUAL_ENV": "/another"}, "uvx servable-local"),
        ({"UV": "/bin/uv", "VIRTUAL_ENV": sys.prefix}, "servable-local"),
        ({}, "servable-local"),
    ],
    ids=["uvx", "uvx beside an environment", "uv run", "installed"],
)
def test_a_command_to_type_begins_as_this_one_was_started(
    environment: dict[str, str],
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """uv sets UV for what it starts, and `uv run` VIRTUAL_ENV: https://docs.astral.sh/uv/reference/environment"""
    for name in ("UV", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    main(["status"])
    assert f"`{program} up`" in capsys.readouterr().out


def test_it_imports_nothing_of_servable() -> None:
    code = "import sys, servable_local.aws.command; print('servable' in sys.modules)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "False\n"
