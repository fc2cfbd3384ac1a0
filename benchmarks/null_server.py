"""A server that answers at once: python -m benchmarks.null_server prints its port, and ends with its input.

With uvloop and httptools one core answers some ten times what a load generator sends.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import httptools
import uvloop

# With asyncio's 100 the kernel drops handshakes that a generator opens at once.
BACKLOG = 4096
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"outputs":[0.5]}'


@contextmanager
def start_null_server() -> Iterator[str]:
    """Start the server in a process of its own, and yield its URL."""
    command = [sys.executable, "-m", "benchmarks.null_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


class Null(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport isn't a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(ANSWER)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Null, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
