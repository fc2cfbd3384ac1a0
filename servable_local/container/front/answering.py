"""One connection to what stands behind the front: a request out, its answer back."""

import asyncio
from typing import Any

import httptools

from servable_local.container.answer import Answer

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "server", "date", "keep-alive"}


class UpstreamError(Exception):
    """The other side closed, or never listened: what NGINX makes a 502 of."""


class Answering(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._transport: Any = None
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(self, request: bytes) -> Answer:
        """Raises `UpstreamError`."""
        if not self.usable:
            raise UpstreamError("closed")
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._headers_are_here = False
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

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        if not self._headers_are_here:
            self._headers.clear()  # it was a "100 Continue"
            return
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        kept = {name: text for name, text in self._headers if name.lower() not in _HOP_BY_HOP}
        content_type = "application/json"
        for name in list(kept):
            if name.lower() == "content-type":
                content_type = kept.pop(name)
        self.usable = self.usable and self._parser.should_keep_alive()
        body = b"".join(self._body)
        answer.set_result(Answer(self._parser.get_status_code(), body, content_type, kept))

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(UpstreamError(reason))
