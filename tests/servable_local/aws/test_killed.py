"""The local AWS killed outright, with an endpoint serving: nothing of it is left in 5 s."""

import io
import json
import os
import signal
import socket
import tarfile
import time
from collections.abc import Iterator

import pytest

from servable_local.aws import down, up
from tests.checkouts import ROOT
from tests.servable_local.aws.deployed_templates import serving

pytestmark = pytest.mark.long

psutil = pytest.importorskip("psutil")
END_SECONDS = 5.0


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[int], list[int]]]:
    """The processes and ports that a local AWS had when it was killed, 5 s ago."""
    folder = tmp_path_factory.mktemp("killed")
    aws = up(folder=folder)
    try:
        s3 = aws.client("s3")
        s3.create_bucket(Bucket="archives")
        s3.put_object(Bucket="archives", Key="model.tar.gz", Body=_archive())
        cfn = aws.client("cloudformation")
        template = json.dumps(serving("s3://archives/model.tar.gz"))
        cfn.create_stack(StackName="stack", TemplateBody=template)
        cfn.get_waiter("stack_create_complete").wait(
            StackName="stack", WaiterConfig={"Delay": 0.1, "MaxAttempts": 600}
        )
        processes = [
            aws.pid,
            *(child.pid for child in psutil.Process(aws.pid).children(recursive=True)),
        ]
        ports = [
            connection.laddr.port
            for connection in psutil.net_connections("tcp")
            if connection.pid in processes and connection.status == psutil.CONN_LISTEN
        ]
        os.kill(aws.pid, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while any(map(_alive, processes)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield processes, ports
    finally:
        down(folder=folder)


def _archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(ROOT / "examples" / "ranker" / "model", "ranker")
    return packed.getvalue()


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_its_processes_are_gone_and_its_ports_free(killed: tuple[list[int], list[int]]) -> None:
    processes, ports = killed
    assert len(processes) > 2
    assert len(ports) > 2
    assert [pid for pid in killed[0] if _alive(pid)] == []
    for port in killed[1]:
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
