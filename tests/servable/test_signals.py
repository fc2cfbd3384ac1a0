"""Which signals end a command as Ctrl-C does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from servable.console import signals
from servable.console.signals import enable_ctrl_c, end_on_ctrl_c, raise_on_ctrl_c
from servable.load.processes import join_load_test
from servable_local.container.launch import STDERR, LaunchError, launch
from tests.checkouts import ROOT

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(signals, "_received", signals._received)  # the next tests exit with it
    before = [(number, signal.getsignal(number)) for number in ENDING]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_it_ends_as_ctrl_c_does_with_the_exit_code_of_a_shell(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    end_on_ctrl_c()
    raise_on_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert signals.compute_interrupt_code() == 128 + number


# `git show` finds a temporary folder that holds files of the revision.
GIT = """#!/bin/sh
case "$*" in
*ls-tree*) printf 'environments/prod.toml\\0' ;;
*) kill -TERM $PPID; exec sleep 20 ;;
esac
"""


@pytest.mark.long
def test_sigterm_leaves_no_temporary_folder_and_exits_with_143(prod: Path) -> None:
    programs, temporary = prod / "bin", prod / "tmp"
    programs.mkdir()
    temporary.mkdir()
    (programs / "git").write_text(GIT)
    (programs / "git").chmod(0o755)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "servable", "check", "--against", "HEAD"]
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (ran.returncode, list(temporary.iterdir())) == (143, [])


def test_what_a_shell_ignores_stays_ignored_but_ctrl_c() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_on_ctrl_c()
    raise_on_ctrl_c()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    enable_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_before_the_command_runs_ends_it_with_130_for_nothing_slow_is_imported() -> None:
    for before in ["end_on_ctrl_c()", "end_on_ctrl_c(); raise_on_ctrl_c()"]:
        code = f"""import os, signal
from servable.console.signals import end_on_ctrl_c, raise_on_ctrl_c
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    os._exit(3)
"""
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        ends = "raise" not in before
        assert (ran.returncode, ran.stderr) == ((130, "interrupted\n") if ends else (3, ""))

    code = "import servable.__main__, sys; print({'click', 'typing', 'asyncio'} & {*sys.modules})"
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.stdout == "set()\n"


def test_ctrl_c_in_a_terminal_reaches_neither_the_load_generator_nor_the_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    popen = Mock(side_effect=OSError("not started"))
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(OSError, match="not started"):
        join_load_test("127.0.0.1", 1)
    assert popen.call_args.kwargs["process_group"] == 0
    with pytest.raises(LaunchError):
        launch(None, {"SAGEMAKER_MULTI_MODEL": "true"}, log=STDERR)
    given = popen.call_args.kwargs
    assert (given["process_group"], given["stderr"]) == (0, subprocess.PIPE)
