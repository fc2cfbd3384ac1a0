"""Ten thousand rows, while the container, the command and at last the local AWS are killed."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from servable_local.aws import running
from tests.servable.batch.deployed_batch import DeployedBatch

pytestmark = pytest.mark.long
FILES, ROWS = 5, 2000
# A row of a kilobyte: a request of 1 MB has a part of a file.
ZEROS = "0" * 500


def rows(file: int) -> range:
    return range(file * ROWS, (file + 1) * ROWS)


@dataclass(frozen=True)
class Story:
    """What was seen, in this order."""

    interrupted: tuple[int, str]
    """Exit code and errors of the command that Ctrl-C ended."""
    ended: tuple[int, dict[str, Any]]
    """Exit code and JSON of the command that came back after the kills."""
    results: list[list[str]]
    """Lines of each result."""
    lost: tuple[int, str]
    """Exit code and errors of the command whose local AWS was killed."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with running() as aws:
        batch = DeployedBatch(tmp_path_factory.mktemp("batch") / "project", aws)
        for file in range(FILES):
            lines = "".join(f"{number}.{ZEROS},{number}.{ZEROS}\n" for number in rows(file))
            batch.put(f"in/{file}.csv", lines.encode())
        first = batch.start()
        until(lambda: batch.job() is not None)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=60)
        job = (batch.job() or {})["TransformJobName"]
        attached = batch.start("--attach", job)
        until(lambda: bool(batch.keys("out/")))
        os.kill(container(aws.pid), signal.SIGKILL)
        kill(attached)
        code, output, _ = batch.run("--attach", job, "--json")
        results = [batch.read(f"out/{file}.csv.out").decode().split() for file in range(FILES)]
        lost = batch.start()
        until(lambda: (batch.job() or {})["TransformJobName"] != job)
        os.kill(aws.pid, signal.SIGKILL)
        _, told = lost.communicate(timeout=100)
        yield Story(
            interrupted=(first.returncode, errors),
            ended=(code, json.loads(output)),
            results=results,
            lost=(lost.returncode, told),
        )


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def container(aws_pid: int) -> int:
    """The supervisor of the job's container."""
    children = psutil.Process(aws_pid).children()
    pids = [each.pid for each in children if "servable_local.container" in each.cmdline()]
    return int(pids[0])


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=60)


def test_ctrl_c_says_how_to_come_back(story: Story) -> None:
    code, errors = story.interrupted
    assert (code, "--attach rows-nightly-" in errors) == (130, True)


def test_every_row_has_its_answer_once_and_in_order(story: Story) -> None:
    assert story.results == [[f"{3.0 * n},{3.0 * n}" for n in rows(f)] for f in range(FILES)]


def test_the_command_that_comes_back_counts_every_row(story: Story) -> None:
    code, result = story.ended
    assert (code, result["rows_in"], result["rows_out"]) == (0, FILES * ROWS, FILES * ROWS)


def test_what_a_killed_local_aws_takes_with_it_is_said(story: Story) -> None:
    code, errors = story.lost
    assert (code, "its results so far and the buckets are lost" in errors) == (3, True)
