"""A server whose own part of each latency is known: nothing at all, or delays that it writes down.

    python -m benchmarks.load.null_server [MEDIAN_MS SIGMA]

Prints its port on 127.0.0.1, and ends when its standard input does. With a median, each answer waits
for a lognormal time. A line on standard input is answered with what the delays were since the last
one, as JSON, and starts them again from the same seed: every generator meets the same ones. uvloop
and httptools: some ten times as fast as the generator, so that one core of it is enough.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import cast

import httptools
import numpy as np
import uvloop

# As many as the generator opens at once where it is not answered for a moment. With asyncio's 100 the
# kernel drops the others' handshakes: they come a second later, or break.
BACKLOG = 4096
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"outputs":[0.5]}'
SEED, DRAWN = 0, 100_000


class NullServer:
    """The server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self.url = f"http://127.0.0.1:{int(self._output.readline())}"

    def delays(self) -> dict[str, float]:
        """Times for which it held the answers since the last call; it starts them again."""
        self._input.write(b"\n")
        self._input.flush()
        parsed: dict[str, float] = json.loads(self._output.readline())
        return parsed


@contextmanager
def null_server(*delays: float, core: int | None = None) -> Iterator[NullServer]:
    """Start a server. `delays`: median in ms, and sigma. `core` None: wherever there is room."""
    command = [sys.executable, "-m", "benchmarks.load.null_server", *map(str, delays)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield NullServer(process)


class Delays:
    """`next()`: seconds. `took`: what they became, for a timer is late by up to a millisecond."""

    def __init__(self, median_ms: float, sigma: float) -> None:
        drawn = np.random.default_rng(SEED).lognormal(0.0, sigma, DRAWN)
        self._drawn: list[float] = (median_ms / 1000 * drawn).tolist()
        self.start()

    def start(self) -> None:
        self._next = cycle(self._drawn)
        self.took: list[float] = []

    def next(self) -> float:
        return next(self._next)

    def summary(self) -> dict[str, float]:
        p50, p99 = np.percentile(self.took, (50, 99)) if self.took else (0.0, 0.0)
        return {"answered": len(self.took), "p50_ms": 1000 * p50, "p99_ms": 1000 * p99}


class Null(asyncio.Protocol):
    def __init__(self, delays: Delays | None) -> None:
        self._delays = delays

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one without being a subclass.
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._delays is None:
            self._transport.write(ANSWER)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._delays.next(), self._answer, self._delays, time.perf_counter())

    def _answer(self, delays: Delays, came: float) -> None:
        if not self._transport.is_closing():
            delays.took.append(time.perf_counter() - came)
            self._transport.write(ANSWER)


async def serve(delays: Delays | None) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Null(delays), "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        if delays is not None:
            print(json.dumps(delays.summary()), flush=True)
            delays.start()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(Delays(*map(float, sys.argv[1:])) if sys.argv[1:] else None))
