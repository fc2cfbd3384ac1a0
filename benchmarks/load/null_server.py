"""A server that does next to nothing: what asks it, and not what answers, is the bound.

    python -m benchmarks.load.null_server

Prints its port on 127.0.0.1, and ends when its standard input does. uvloop and httptools: some
ten times as fast as the generator, so that one core of it is enough.
"""

import asyncio
import sys
from typing import cast

import httptools
import uvloop

# As many as the generator opens at once where it is not answered for a moment. With asyncio's 100 the
# kernel drops the others' handshakes: they come a second later, or break.
BACKLOG = 4096
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"outputs":[0.5]}'


class Null(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one without being a subclass.
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
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
