"""Starting, finding and ending a local AWS: no process and no file stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from servable_local.aws import ACCOUNT, LocalAws, LocalAwsStartError, down, running, status, up
from tests.checkouts import ROOT
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.live_endpoints import archive

pytestmark = pytest.mark.long


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def begin_deployment(aws: LocalAws) -> Callable[[], None]:
    """Start the deployment of an endpoint, and return what waits until it serves."""
    s3, cfn = aws.client("s3"), aws.client("cloudformation")
    s3.create_bucket(Bucket="archives")
    s3.put_object(Bucket="archives", Key="model.tar.gz", Body=archive(root="ranker"))
    template = json.dumps(serving("s3://archives/model.tar.gz"))
    cfn.create_stack(StackName="stack", TemplateBody=template)
    wait, often = cfn.get_waiter("stack_create_complete").wait, {"Delay": 0.1, "MaxAttempts": 600}
    return lambda: wait(StackName="stack", WaiterConfig=often)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    down(folder=tmp_path)


def test_one_that_runs_survives_its_starter_says_where_it_is_and_is_found(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = f"from pathlib import Path; from servable_local.aws import up; up(folder=Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
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
    until(lambda: not _alive(first.pid), 10)


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
    begin_deployment(aws)()
    children = psutil.Process(aws.pid).children(recursive=True)
    processes = [aws.pid, *(child.pid for child in children)]
    own = [each for each in psutil.net_connections("tcp") if each.pid in processes]
    ports = [each.laddr.port for each in own if each.status == psutil.CONN_LISTEN]
    assert (len(processes) > 2, len(ports) > 2) == (True, True)

    os.kill(aws.pid, signal.SIGKILL)
    until(lambda: not any(map(_alive, processes)), 5)
    assert status(folder=folder) is None
    for port in ports:
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))


def test_a_private_one_ends_with_its_block_and_leaves_no_file() -> None:
    with running() as aws:
        pass
    until(lambda: not _alive(aws.pid), 10)
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_private_one_ends_without_its_parent_and_removes_its_folder(
    number: signal.Signals,
) -> None:
    command = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        holder.send_signal(number)
    until(lambda: not _alive(int(pid)), 10)
    assert not Path(folder).exists()


# --- Ctrl-C, or worse, at any step of an endpoint's life

_DEPLOYS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.servable_local.aws.test_lifecycle import begin_deployment
from servable_local.aws import running

with running() as aws:
    wait = begin_deployment(aws)
    print(aws.folder, flush=True)
    wait()
    print("serving", flush=True)
    input()
"""


def _left(folder: str) -> list[str]:
    """Command lines that speak of this local AWS's folder."""
    lines = (" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"]))
    return [line for line in lines if folder in line]


@pytest.mark.parametrize(
    ("number", "after_seconds"),
    [
        *((signal.SIGINT, 0.5), (signal.SIGINT, None), (signal.SIGTERM, 2.0)),
        *((signal.SIGKILL, 0.5), (signal.SIGKILL, None)),
    ],
)
def test_no_process_is_left(number: signal.Signals, after_seconds: float | None) -> None:
    command, pipe = [sys.executable, "-c", _DEPLOYS], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    folder = process.stdout.readline().strip()
    if after_seconds is None:
        process.stdout.readline()
    else:
        time.sleep(after_seconds)
    os.kill(process.pid, number)
    process.wait(30)
    until(lambda: _left(folder) == [], 15)
