"""Ctrl-C, or worse, at any step of an endpoint's life leaves no process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]

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


@pytest.mark.long
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
