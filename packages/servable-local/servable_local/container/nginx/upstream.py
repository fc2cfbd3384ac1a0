"""Connections to what stands behind NGINX: Gunicorn's socket, the model servers' ports."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

import httptools

from servable_local.container.http_messages import HttpAnswer
from servable_local.container.ports import HOST

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "server", "date", "keep-alive"}


class UpstreamError(Exception):
    """The other side closed, or never listened: what NGINX makes a 502 of."""


class UpstreamConnection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._transport: Any = None
        self._answer: asyncio.Future[HttpAnswer] | None = None

    async def ask(self, request: bytes) -> HttpAnswer:
        """Raises `UpstreamError`."""
        if not self.usable:
            raise UpstreamError("closed")
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._headers_are_here = False
        self._has_no_body = request.startswith(b"HEAD ")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    # --- called by the event loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self._fail(f"no HTTP: {problem}")
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self._answer is not None and self._headers_are_here:
            # A body that ended early, as of a handler that returned a dict: what came, goes on.
            self.on_message_complete()
        self._fail("closed before it answered")

    # --- called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._headers_are_here = self._parser.get_status_code() >= 200
        if self._headers_are_here and self._has_no_body:
            self.on_message_complete()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        if not self._headers_are_here:
            self._headers.clear()  # it was a "100 Continue"
            return
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        headers = {name: text for name, text in self._headers if name.lower() not in _HOP_BY_HOP}
        content_type = "application/json"
        for name in list(headers):
            if name.lower() == "content-type":
                content_type = headers.pop(name)
        self.usable = self.usable and self._parser.should_keep_alive()
        body = b"".join(self._body)
        answer.set_result(HttpAnswer(self._parser.get_status_code(), body, content_type, headers))

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(UpstreamError(reason))


@dataclass(frozen=True)
class GunicornUpstream:
    """One connection for each request, as NGINX keeps none to its upstreams."""

    socket_name: str

    async def ask(self, request: bytes) -> HttpAnswer:
        """Raises `UpstreamError`."""
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(UpstreamConnection, self.socket_name)
        except OSError as error:
            raise UpstreamError(str(error)) from None
        try:
            return await connection.ask(request)
        finally:
            connection.close()


class ModelServersUpstream:
    """Connections to the REST ports, kept; each request goes to the next server in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = deque(ports)
        self._idle: dict[int, list[UpstreamConnection]] = {port: [] for port in ports}

    async def ask(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Raises `UpstreamError` when no server takes it, or when the one that took it died."""
        # NGINX sends its group's name as Host; the REST port here takes its own only.
        start = f"{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\n"
        start += f"Content-Length: {len(body)}\r\nHost: {HOST}:"
        for _ in range(len(self._ports)):
            self._ports.rotate(-1)
            port = self._ports[0]
            connection = await self._connection(port)
            if connection is None:
                continue  # as NGINX: the next one, since nothing was sent yet
            try:
                head = f"{start}{port}\r\n\r\n".encode("latin-1", "replace")
                answer = await connection.ask(head + body)
            except BaseException:
                connection.close()
                raise
            if connection.usable:
                self._idle[port].append(connection)
            return answer
        raise UpstreamError("no model server listens")

    async def _connection(self, port: int) -> UpstreamConnection | None:
        while self._idle[port]:
            connection = self._idle[port].pop()
            if connection.usable:
                return connection
        try:
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(UpstreamConnection, HOST, port))[1]
        except OSError:
            return None
