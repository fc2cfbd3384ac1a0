"""Servers for load generators: one responds at once, the others after delays that they know.

`python -m benchmarks.null_server [KIND SEED]` prints its port, and ends with its input. With a KIND it then
prints the p50, p90, and p99 of what it served, in milliseconds from a request's arrival to its response. With
uvloop and httptools one core responds to some ten times what a load generator sends.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import httptools
import numpy as np
import uvloop

# With asyncio's 100 the kernel drops handshakes that a generator opens at once.
BACKLOG = 4096
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"outputs":[0.5]}'
PERCENTILES = (50, 90, 99)
STALLS, QUEUE, TWO_PEAKS = KINDS = ("stalls", "M/D/1", "two peaks")


@contextmanager
def start_null_server(*kind: str) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Serve a KIND with a seed; yield its URL, and a function to end it and return the truth."""
    command = [sys.executable, "-m", "benchmarks.null_server", *kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def end() -> list[float]:
            return cast(list[float], json.loads(process.communicate()[0]))

        yield f"http://127.0.0.1:{int(process.stdout.readline())}", end


class Null(asyncio.Protocol):
    def __init__(self, choose_delay: Callable[[float], float] | None, took: list[float]) -> None:
        """`choose_delay` returns the seconds to wait for a request that arrives now; `took` gets its time."""
        self._choose_delay, self._took = choose_delay, took
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport isn't a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._choose_delay is None:
            self._transport.write(ANSWER)
            return
        now = time.monotonic()  # uvloop's own time has whole milliseconds
        self._loop.call_later(self._choose_delay(now), self._respond, now)

    def _respond(self, arrived: float) -> None:
        self._transport.write(ANSWER)
        self._took.append(1000 * (time.monotonic() - arrived))


def build_delay_function(kind: str, seed: int) -> Callable[[float], float]:
    """Return the delays of a kind of server, in seconds by the time of arrival."""
    chance, free = random.Random(seed), 0.0

    def compute_queue_delay(now: float) -> float:
        """Serve one request at a time, for 4 ms each."""
        nonlocal free
        free = max(now, free) + 0.004
        return free - now

    start = chance.uniform(0, 2)
    return {
        # Every two seconds all requests are held for up to 100 ms.
        STALLS: lambda now: max(0.0, 0.1 - (now - start) % 2),
        QUEUE: compute_queue_delay,
        TWO_PEAKS: lambda now: 0.005 if chance.random() < 0.7 else 0.040,
    }[kind]


async def serve(*kind: str) -> None:
    loop = asyncio.get_running_loop()
    took: list[float] = []
    delays = build_delay_function(kind[0], int(kind[1])) if kind else None
    server = await loop.create_server(lambda: Null(delays, took), "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    server.close()
    if kind:
        print(json.dumps(np.percentile(took, PERCENTILES).tolist()))


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
