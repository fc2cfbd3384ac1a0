"""What the worst bodies cost a worker: `python -m tests.fuzz.costs [WORD …]`, as lines of JSON.

Each body is answered in a process of its own, forked from this one, so that what it takes at most
is what the operating system says of that process.
"""

import ctypes
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.body_checks import Checked
from tests.fuzz.body_generator import Body
from tests.fuzz.worst_bodies import WORST

TRANSPORTS = ("auto", "grpc", "rest")


def cost_of(answer: Callable[[], int]) -> dict[str, Any]:
    """Status, CPU-seconds, and the MiB that the process grew by at most."""
    reading, writing = os.pipe()
    # What was freed and kept would hide what is taken again.
    ctypes.CDLL(None).malloc_trim(0)
    process = os.fork()
    if not process:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        before_mib = pages * resource.getpagesize() / 1024**2
        began = time.process_time()
        status = answer()
        cpu_seconds = time.process_time() - began
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mib
        found = {"status": status, "cpu_seconds": cpu_seconds, "peak_mib": peak_mib}
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    parsed: dict[str, Any] = json.loads(text or b'{"status": 0, "cpu_seconds": 0, "peak_mib": 0}')
    return parsed


def costs(words: list[str]) -> Iterator[dict[str, Any]]:
    with Checked(1) as checked:
        for transport in TRANSPORTS:  # what is imported and learnt once is not counted
            checked.status(Body("application/json", "", b"[[1,2,3]]"), transport)
            checked.status(Body("text/csv", "", b"1,2,3"), transport)
        for name, make in WORST.items():
            if words and not any(word in name for word in words):
                continue
            body = make()
            for transport in TRANSPORTS:
                # A model server that refuses makes the handler explain.
                for refuses in (False, True) if transport == "auto" else (False,):
                    asked = partial(checked.status, body, transport, refuses=refuses)
                    of_body = {"content_type": body.content_type, "bytes": len(body.bytes)}
                    how = {"name": name, "transport": transport, "refuses": refuses}
                    yield {**how, **of_body, **cost_of(asked)}


if __name__ == "__main__":
    logging.disable()
    for line in costs(sys.argv[1:]):
        print(json.dumps(line), flush=True)
