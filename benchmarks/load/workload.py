"""What is sent, and the null server it is sent to, each on a core of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import workload
from servable.load.bodies import Body

CONTENT_TYPE = "application/json"


def bodies() -> list[Body]:
    """One JSON row of 256 numbers: 2 KB."""
    return [Body(content=workload.body(workload.JSON, 1), content_type=CONTENT_TYPE)]


@contextmanager
def null_server(core: int | None) -> Iterator[str]:
    """Its address. `core` None: wherever there is room."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.null_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started in the block stays on that core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
