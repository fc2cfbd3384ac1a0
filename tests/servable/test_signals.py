"""Which signals end a command as Ctrl-C does."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from servable.load.load_generator import join
from servable.signals import as_ctrl_c
from servable_local.container.launch import STDERR, LaunchError, launch
from tests.checkouts import ROOT

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in ENDING]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_it_ends_as_ctrl_c_does(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    as_ctrl_c()
    assert signal.getsignal(number) is signal.default_int_handler


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    as_ctrl_c()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("before", ["end_on_ctrl_c()", "end_on_ctrl_c(); raise_on_ctrl_c()"])
def test_ctrl_c_before_the_command_runs_ends_it_with_130_and_no_trace(before: str) -> None:
    code = f"""import os, signal
from servable.signals import end_on_ctrl_c, raise_on_ctrl_c
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    os._exit(3)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    ends = "raise" not in before
    assert (ran.returncode, ran.stderr) == ((130, "interrupted\n") if ends else (3, ""))


def test_nothing_that_takes_time_is_imported_before_that() -> None:
    code = "import servable.__main__, sys; print({'click', 'typing', 'asyncio'} & {*sys.modules})"
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.stdout == "set()\n"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options with which a process would have been started."""
    options: dict[str, Any] = {}

    def popen(command: list[str], **given: Any) -> None:
        options.update(given)
        raise OSError("not started")

    monkeypatch.setattr(subprocess, "Popen", popen)
    return options


def test_ctrl_c_in_a_terminal_does_not_reach_the_load_generator(given: dict[str, Any]) -> None:
    with pytest.raises(OSError, match="not started"):
        join("127.0.0.1", 1)
    assert given["process_group"] == 0


def test_ctrl_c_in_a_terminal_does_not_reach_the_local_container(given: dict[str, Any]) -> None:
    with pytest.raises(LaunchError):
        launch(None, {"SAGEMAKER_MULTI_MODEL": "true"}, log=STDERR)
    assert given["process_group"] == 0


def test_a_log_on_stderr_is_written_by_this_process_and_not_opened_with_a_second_offset(
    given: dict[str, Any],
) -> None:
    with pytest.raises(LaunchError):
        launch(None, {"SAGEMAKER_MULTI_MODEL": "true"}, log=STDERR)
    assert given["stderr"] == subprocess.PIPE
