"""A container: started, started again when it has ended, and closed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.sagemaker.container import (
    Container,
    VariantStartError,
    launch_local_container,
)
from servable_local.container import launch
from tests.servable_local.aws.boto_members import until


class Process:
    """A container's process that can be told to have ended."""

    pid = 2**22 + 1  # no child of ours: it has ended

    def __init__(self, **more: Any) -> None:
        self.url = f"http://127.0.0.1/{id(self)}"
        self.closed = False
        vars(self).update(more)

    def close(self) -> None:
        self.closed = True


def replaced(container: Container) -> None:
    """Heals it, and waits for the replacement."""
    container.restart_if_ended()
    until(lambda: not container._healing)


def test_a_failed_restart_is_printed_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    processes: list[Process] = []
    fails = [False, True, False]

    def launch() -> Process:
        if fails.pop(0):
            raise RuntimeError("no room")
        processes.append(Process())
        return processes[-1]

    container = Container(launch)
    replaced(container)
    failed = container.url == processes[0].url
    replaced(container)
    assert (failed, container.url, processes[0].closed) == (True, processes[1].url, True)
    assert "a container could not be restarted: no room" in capsys.readouterr().err


def test_a_container_closed_while_it_is_replaced_leaves_no_process() -> None:
    processes: list[Process] = []

    def launch() -> Process:
        processes.append(Process())
        if len(processes) == 2:
            container.close()
        return processes[-1]

    container = Container(launch)
    replaced(container)
    until(lambda: [process.closed for process in processes] == [True, True])
    container.restart_if_ended()
    assert len(processes) == 2


def test_a_container_is_started_again_only_when_it_was_killed() -> None:
    running = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    left = list(running)
    container = Container(lambda: Process(pid=left.pop().pid))
    try:
        before = container.pid
        replaced(container)
        assert (container.pid, before) == (before, running[1].pid)
        os.kill(running[1].pid, signal.SIGKILL)
        os.waitid(os.P_PID, running[1].pid, os.WEXITED | os.WNOWAIT)
        replaced(container)
        assert container.pid == running[0].pid
        running[0].kill()
        running[0].wait()
        container.close()
        replaced(container)
        assert (container.pid, left) == (running[0].pid, [])
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_container_is_launched_and_has_what_its_process_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*given: Any, **more: Any) -> Any:
        raise launch.LaunchError("no ping")

    monkeypatch.setattr(launch, "launch", fails)
    with pytest.raises(VariantStartError, match="^no ping$"):
        launch_local_container(None, {})

    monkeypatch.setattr(launch, "launch", lambda *given, **more: (given, more))
    given: Any = launch_local_container(tmp_path, {"A": "1"}, ready_timeout_seconds=5, log=tmp_path)
    assert given == ((tmp_path, {"A": "1"}), {"ready_timeout_seconds": 5, "log": tmp_path})
    monkeypatch.setitem(sys.modules, "servable_local.container.launch", None)
    with pytest.raises(VariantStartError, match=r"pip install 'servable-local\[run\]'"):
        launch_local_container(None, {})

    faults = object()
    assert Container(lambda: Process(faults=faults)).faults is faults
    container = Container(lambda: Process(pid=None))
    assert (container.pid, container.folder) == (None, None)
    with pytest.raises(ValueError, match="does not support fault injection"):
        container.faults  # noqa: B018
