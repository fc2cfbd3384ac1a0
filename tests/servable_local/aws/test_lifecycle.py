"""Starting, finding and ending a local AWS: no process and no file stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from servable_local.aws import ACCOUNT, LocalAws, LocalAwsStartError, down, running, status, up

pytestmark = pytest.mark.long

PROJECT = Path(__file__).resolve().parents[3]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def _gone(pid: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _alive(pid)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    down(folder=tmp_path)


@pytest.fixture(scope="module")
def running_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a local AWS that runs, started by a process that is gone."""
    folder = tmp_path_factory.mktemp("runs")
    code = f"from pathlib import Path; from servable_local.aws import up; up(folder=Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True)
    yield folder
    down(folder=folder)


def test_it_survives_the_process_that_started_it(running_folder: Path) -> None:
    assert status(folder=running_folder) is not None


def test_it_says_where_it_is_while_it_runs(running_folder: Path) -> None:
    found = status(folder=running_folder)
    assert found is not None
    assert found.client("sts").get_caller_identity()["Account"] == ACCOUNT


def test_the_second_up_finds_the_first(running_folder: Path) -> None:
    first, second = status(folder=running_folder), up(folder=running_folder)
    assert first is not None
    assert (second.pid, second.already_up) == (first.pid, True)


def test_it_listens_on_loopback_only(running_folder: Path) -> None:
    found = status(folder=running_folder)
    assert found is not None
    listening = psutil.Process(found.pid).net_connections("inet")
    assert {one.laddr.ip for one in listening if one.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_a_second_one_on_its_port_says_that_it_holds_it(
    running_folder: Path, tmp_path: Path
) -> None:
    first = status(folder=running_folder)
    assert first is not None
    said = f"port {first.port} is already in use; process {first.pid} uses it"
    with pytest.raises(LocalAwsStartError, match=said):
        up(folder=tmp_path, port=first.port)


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[LocalAws], Path]:
    """What two got that were started at the same moment, and were ended then."""
    folder = tmp_path_factory.mktemp("raced")
    found: list[LocalAws] = []
    threads = [threading.Thread(target=lambda: found.append(up(folder=folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    down(folder=folder)
    return found, folder


def test_two_at_once_are_one(raced: tuple[list[LocalAws], Path]) -> None:
    assert len({one.pid for one in raced[0]}) == 1


def test_of_two_at_once_the_second_does_not_come_up_after_the_first(
    raced: tuple[list[LocalAws], Path],
) -> None:
    time.sleep(1.5)  # longer than one waits for the lock
    assert status(folder=raced[1]) is None


def test_down_ends_its_process(folder: Path) -> None:
    aws = up(folder=folder)
    down(folder=folder)
    assert _gone(aws.pid)


def test_after_a_kill_it_is_known_to_be_down(folder: Path) -> None:
    os.kill(up(folder=folder).pid, signal.SIGKILL)
    time.sleep(0.3)
    assert status(folder=folder) is None


@pytest.fixture(scope="module")
def ended() -> LocalAws:
    """A private one, after its block."""
    with running() as aws:
        pass
    return aws


def test_a_private_one_ends_with_its_block(ended: LocalAws) -> None:
    assert _gone(ended.pid)


def test_a_private_one_leaves_no_file(ended: LocalAws) -> None:
    assert not ended.folder.exists()


# SIGINT said outright: a shell starts background jobs with it ignored.
_HOLDER = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from servable_local.aws import running
with running() as aws:
    print(aws.pid, aws.folder, flush=True)
    time.sleep(60)
"""


def _held_by(number: signal.Signals) -> tuple[int, Path]:
    """(process, folder) of a private one whose holder got that signal."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        holder.send_signal(number)
    return int(pid), Path(folder)


@pytest.fixture(scope="module")
def orphan() -> tuple[int, Path]:
    return _held_by(signal.SIGKILL)


def test_a_private_one_ends_when_its_parent_is_killed(orphan: tuple[int, Path]) -> None:
    assert _gone(orphan[0])


def test_a_private_one_removes_its_folder_when_its_parent_is_killed(
    orphan: tuple[int, Path],
) -> None:
    _gone(orphan[0])
    assert not orphan[1].exists()


def test_a_private_one_ends_on_ctrl_c() -> None:
    assert _gone(_held_by(signal.SIGINT)[0])
