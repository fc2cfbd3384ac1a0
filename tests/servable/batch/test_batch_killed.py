"""Ten thousand rows, while the container, the command and at last the local AWS are killed."""

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from servable_local.aws import running
from tests.conformance.asking import eventually
from tests.servable.batch.deployed_batch import DeployedBatch

pytestmark = pytest.mark.long
FILES, ROWS = 5, 2000
# A row of a kilobyte: a request of 1 MB has a part of a file.
ZEROS = "0" * 500


def rows(file: int) -> range:
    return range(file * ROWS, (file + 1) * ROWS)


def test_every_row_has_its_answer_once_and_what_is_lost_is_said(tmp_path: Path) -> None:
    with running() as aws:
        batch = DeployedBatch(tmp_path / "project", aws)
        for file in range(FILES):
            lines = "".join(f"{number}.{ZEROS},{number}.{ZEROS}\n" for number in rows(file))
            batch.put(f"in/{file}.csv", lines.encode())

        first = batch.start()
        assert eventually(lambda: batch.job() is not None, 100)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=60)
        assert (first.returncode, "--attach rows-nightly-" in errors) == (130, True)

        job = (batch.job() or {})["TransformJobName"]
        attached = batch.start("--attach", job)
        assert eventually(lambda: bool(batch.keys("out/")), 100)
        os.kill(container(aws.pid), signal.SIGKILL)
        kill(attached)
        code, output, _ = batch.run("--attach", job, "--json")
        result = json.loads(output)
        counted = FILES * ROWS
        assert (code, result["rows_in"], result["rows_out"]) == (0, counted, counted)
        results = [batch.read(f"out/{file}.csv.out").decode().split() for file in range(FILES)]
        assert results == [[f"{3.0 * n},{3.0 * n}" for n in rows(file)] for file in range(FILES)]

        lost = batch.start()
        assert eventually(lambda: (batch.job() or {})["TransformJobName"] != job, 100)
        os.kill(aws.pid, signal.SIGKILL)
        _, errors = lost.communicate(timeout=100)
        told = "its results so far and the buckets are lost"
        assert (lost.returncode, told in errors) == (3, True)


def container(aws_pid: int) -> int:
    """The supervisor of the job's container."""
    children = psutil.Process(aws_pid).children()
    pids = [each.pid for each in children if "servable_local.container" in each.cmdline()]
    return int(pids[0])


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=60)
