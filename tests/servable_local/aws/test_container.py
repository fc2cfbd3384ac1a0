"""A container that has ended is started again; one that is closed is not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from servable_local.aws.sagemaker.container import (
    Container,
    VariantStartError,
    launch_local_container,
)
from servable_local.aws.sagemaker.published_metrics import Utilization


class Sleeper:
    """A process that does nothing."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sleep", "60"])
        self.pid = self._process.pid
        self.url = f"http://127.0.0.1/{self.pid}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def container() -> Iterator[Container]:
    container = Container(Sleeper)
    yield container
    container.close()


def _kill(container: Container) -> int:
    pid = container.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def _heal(container: Container, before: int) -> None:
    deadline = time.monotonic() + 10
    container.restart_if_ended()
    while container.pid == before and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_container_is_started_again_only_when_it_was_killed(container: Container) -> None:
    before = _kill(container)
    _heal(container, before)
    assert container.pid != before

    before = container.pid
    container.restart_if_ended()
    time.sleep(0.1)
    assert container.pid == before

    before = container.pid
    container.close()
    container.restart_if_ended()
    time.sleep(0.1)
    assert container.pid == before


def test_a_busy_container_takes_time_and_memory() -> None:
    class Busy(Sleeper):
        def __init__(self) -> None:
            self._process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.pid, self.url = self._process.pid, ""

    container, utilization = Container(Busy), Utilization()
    deadline = time.monotonic() + 30  # on a full computer even a busy loop waits for its turn
    found: dict[str, float] = {}
    try:
        while not found.get("CPUUtilization") and time.monotonic() < deadline:
            time.sleep(0.6)
            found = utilization.measure(container)
    finally:
        container.close()
    assert found["CPUUtilization"] > 0
    assert found["MemoryUtilization"] > 0


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "servable_local.container.launch", None)
    with pytest.raises(VariantStartError, match=r"pip install 'servable-local\[run\]'"):
        launch_local_container(None, {})
