"""`servable-local`: the program of the local AWS alone, without the command `servable`."""

import subprocess
import sys
from pathlib import Path

import pytest

from servable_local.aws.command import main
from tests.checkouts import ROOT


def test_a_command_to_type_begins_as_this_one_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """uv sets UV for what it starts, and `uv run` VIRTUAL_ENV: https://docs.astral.sh/uv/reference/environment"""
    monkeypatch.chdir(tmp_path)  # where no local AWS runs
    assert main(["down"]) == 0
    assert capsys.readouterr().out == f"local AWS: not running for {tmp_path}\n"
    for uv, environment, program in [
        ("", "", "servable-local"),
        ("/bin/uv", "", "uvx servable-local"),
        ("/bin/uv", "/another", "uvx servable-local"),
        ("/bin/uv", sys.prefix, "servable-local"),
    ]:
        for name, value in (("UV", uv), ("VIRTUAL_ENV", environment)):
            monkeypatch.setenv(name, value)
            if not value:
                monkeypatch.delenv(name)
        assert main(["status"]) == 1
        said = f"local AWS: not running; `{program} up` starts it\n"
        assert capsys.readouterr().out == said


def test_a_value_outside_of_its_range_exits_2_and_says_the_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, said in [
        (["--port", "70000"], "'--port': 70000 is not in the range 0<=x<=65535."),
        (["--minute", "0.01"], "'--minute': 0.01 is not in the range 0.1<=x<=60.0."),
        (["--containers", "65"], "'--containers': 65 is not in the range 0<=x<=64."),
    ]:
        assert (main(["up", *words]), said in capsys.readouterr().err) == (2, True)


def test_it_imports_nothing_of_servable() -> None:
    code = "import sys, servable_local.aws.command; print('servable' in sys.modules)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "False\n"
