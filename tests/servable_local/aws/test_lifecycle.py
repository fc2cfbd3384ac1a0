"""Starting, finding and ending a local AWS: no process and no file stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from servable_local.aws import ACCOUNT, LocalAws, LocalAwsStartError, down, running, status, up
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.live_endpoints import archive

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


def test_one_that_runs_survives_its_starter_says_where_it_is_and_is_found(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = f"from pathlib import Path; from servable_local.aws import up; up(folder=Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True)
    first = status(folder=folder)
    assert first is not None
    assert first.client("sts").get_caller_identity()["Account"] == ACCOUNT
    second = up(folder=folder)
    assert (second.pid, second.already_up) == (first.pid, True)
    listening = psutil.Process(first.pid).net_connections("inet")
    assert {one.laddr.ip for one in listening if one.status == psutil.CONN_LISTEN} == {"127.0.0.1"}

    said = f"port {first.port} is already in use; process {first.pid} uses it"
    with pytest.raises(LocalAwsStartError, match=said):
        up(folder=tmp_path_factory.mktemp("other"), port=first.port)
    down(folder=folder)
    assert _gone(first.pid)


def test_two_at_once_are_one_and_do_not_come_up_after_their_end(folder: Path) -> None:
    found: list[LocalAws] = []
    threads = [threading.Thread(target=lambda: found.append(up(folder=folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    down(folder=folder)
    assert len({one.pid for one in found}) == 1
    time.sleep(1.5)  # longer than one waits for the lock
    assert status(folder=folder) is None


def test_killed_while_an_endpoint_serves_it_is_down_and_no_process_or_port_is_left(
    folder: Path,
) -> None:
    aws = up(folder=folder)
    s3, cfn = aws.client("s3"), aws.client("cloudformation")
    s3.create_bucket(Bucket="archives")
    s3.put_object(Bucket="archives", Key="model.tar.gz", Body=archive(root="ranker"))
    template = json.dumps(serving("s3://archives/model.tar.gz"))
    cfn.create_stack(StackName="stack", TemplateBody=template)
    cfn.get_waiter("stack_create_complete").wait(
        StackName="stack", WaiterConfig={"Delay": 0.1, "MaxAttempts": 600}
    )
    children = psutil.Process(aws.pid).children(recursive=True)
    processes = [aws.pid, *(child.pid for child in children)]
    ports = [
        connection.laddr.port
        for connection in psutil.net_connections("tcp")
        if connection.pid in processes and connection.status == psutil.CONN_LISTEN
    ]
    assert (len(processes) > 2, len(ports) > 2) == (True, True)

    os.kill(aws.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while any(map(_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in processes if _alive(pid)] == []
    assert status(folder=folder) is None
    for port in ports:
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))


def test_a_private_one_ends_with_its_block_and_leaves_no_file() -> None:
    with running() as aws:
        pass
    assert _gone(aws.pid)
    assert not aws.folder.exists()


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_private_one_ends_without_its_parent_and_removes_its_folder(
    number: signal.Signals,
) -> None:
    pid, folder = _held_by(number)
    assert _gone(pid)
    assert not folder.exists()


# --- Ctrl-C, or worse, at any step of an endpoint's life

_DEPLOYS = """
import io, json, signal, sys, tarfile
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.servable_local.aws.deployed_templates import serving
from servable_local.aws import running

with running() as aws:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add("examples/ranker/model", "ranker")
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="archives")
    s3.put_object(Bucket="archives", Key="model.tar.gz", Body=archive.getvalue())
    cfn = aws.client("cloudformation")
    cfn.create_stack(
        StackName="stack", TemplateBody=json.dumps(serving("s3://archives/model.tar.gz"))
    )
    print(aws.folder, flush=True)
    cfn.get_waiter("stack_create_complete").wait(StackName="stack", WaiterConfig={"Delay": 1})
    print("serving", flush=True)
    input()
"""


def _left(folder: str) -> list[str]:
    """Command lines that speak of this local AWS's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if folder in line:
            found.append(line)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left")
@pytest.mark.parametrize(
    ("number", "after_seconds"),
    [
        (signal.SIGINT, 0.5),
        (signal.SIGINT, None),
        (signal.SIGTERM, 2.0),
        (signal.SIGKILL, 0.5),
        (signal.SIGKILL, None),
    ],
)
def test_no_process_is_left(number: signal.Signals, after_seconds: float | None) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _DEPLOYS],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    folder = process.stdout.readline().strip()
    if after_seconds is None:
        process.stdout.readline()
    else:
        time.sleep(after_seconds)
    os.kill(process.pid, number)
    process.wait(30)
    deadline = time.monotonic() + 15
    while _left(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _left(folder) == []
