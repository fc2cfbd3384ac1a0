"""Connections to what stands behind the front: Gunicorn's socket, the model servers' ports."""

import asyncio
from collections import deque

from servable_local.container.answer import Answer
from servable_local.container.front.answering import Answering, UpstreamError
from servable_local.container.ports import HOST


class Gunicorn:
    """One connection for each request, as NGINX keeps none to its upstreams."""

    def __init__(self, socket_name: str) -> None:
        self._socket_name = socket_name

    async def ask(self, request: bytes) -> Answer:
        """Raises `UpstreamError`."""
        loop = asyncio.get_running_loop()
        try:
            _, answering = await loop.create_unix_connection(Answering, self._socket_name)
        except OSError as error:
            raise UpstreamError(str(error)) from None
        try:
            return await answering.ask(request)
        finally:
            answering.close()


class ModelServers:
    """Connections to the REST ports, kept; each request goes to the next server in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = deque(ports)
        self._idle: dict[int, list[Answering]] = {port: [] for port in ports}

    async def ask(self, method: str, path: str, body: bytes) -> Answer:
        """Raises `UpstreamError` when no server takes it, or when the one that took it died."""
        for _ in range(len(self._ports)):
            self._ports.rotate(-1)
            port = self._ports[0]
            connection = await self._connection(port)
            if connection is None:
                continue  # as NGINX: the next one, since nothing was sent yet
            try:
                answer = await connection.ask(_request(port, method, path, body))
            except BaseException:
                connection.close()
                raise
            if connection.usable:
                self._idle[port].append(connection)
            return answer
        raise UpstreamError("no model server listens")

    async def _connection(self, port: int) -> Answering | None:
        while self._idle[port]:
            connection = self._idle[port].pop()
            if connection.usable:
                return connection
        try:
            loop = asyncio.get_running_loop()
            _, made = await loop.create_connection(Answering, HOST, port)
            return made
        except OSError:
            return None


def _request(port: int, method: str, path: str, body: bytes) -> bytes:
    # NGINX sends the name of its group of servers as Host; the REST port here takes its own only.
    start = (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return start.encode("latin-1", "replace") + body
