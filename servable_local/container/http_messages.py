"""HTTP requests and answers: as the container's processes pass them on, and as bytes."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import httptools

from servable_local.cross_origin import own_hosts, refusal

JSON = "application/json"


class Headers(Protocol):
    """Finds a header however its name is spelled."""

    def get(self, name: str, /) -> str | None: ...


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request. `path` has no query."""

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class HttpAnswer:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpError(Exception):
    """The model server's refusal of one request: an HTTP status and TensorFlow's sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def error(status: int, message: str) -> HttpAnswer:
    """A refusal in the form that model server and container share: {"error": "..."}."""
    return HttpAnswer(status, json.dumps({"error": message}).encode())


_REASONS = {status.value: status.phrase for status in HTTPStatus}


class BadRequestError(Exception):
    """The bytes are not HTTP/1.1; `str()` says why."""


@dataclass(frozen=True)
class HeaderFields:
    """The headers of one request, in their order; found however their names are spelled."""

    pairs: list[tuple[bytes, bytes]]

    def get(self, name: str, /) -> str | None:
        lower = name.lower().encode()
        return next(
            (text.decode("latin-1") for key, text in self.pairs if key.lower() == lower), None
        )


class RequestReader:
    """`feed` it what comes in; `requests` fills with (request, keep alive).

    In the place of a request that a web page may have sent stands
    the answer that refuses it, with keep alive False.
    """

    def __init__(self, port: int) -> None:
        """`port`: the server's, which a Host header has to name."""
        self.requests: deque[tuple[HttpRequest | HttpAnswer, bool]] = deque()
        self.wants_continue = False
        """The caller waits for a "100 Continue" before it sends the body."""
        self._own_hosts = own_hosts(port)
        self._parser = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def feed(self, data: bytes) -> None:
        """Raises `BadRequestError`."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadRequestError(
                "another protocol is asked for; HTTP/1.1 is spoken here"
            ) from None
        except httptools.HttpParserError as problem:
            raise BadRequestError(str(problem)) from None

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._target = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._hosts: list[bytes] = []
        self._origin: bytes | None = None

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        value = value.rstrip(b" \t")  # as NGINX does; the parser takes only what leads
        self._pairs.append((name, value))
        name = name.lower()
        if name == b"host":
            self._hosts.append(value)
        elif name == b"origin":
            self._origin = value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.wants_continue = True

    def on_body(self, part: bytes) -> None:
        if self._origin is None:  # else it will be refused, and is not kept until then
            self._body.append(part)

    def on_message_complete(self) -> None:
        self.wants_continue = False
        refused = refusal(
            self._own_hosts, hosts=self._hosts, origin=self._origin, target=self._target
        )
        if refused is not None:
            self.requests.append((error(*refused), False))
            return
        parser: Any = self._parser
        path = self._target.split(b"?", 1)[0].decode("latin-1")
        request = HttpRequest(
            parser.get_method().decode("latin-1"),
            path,
            HeaderFields(self._pairs),
            self._body[0] if len(self._body) == 1 else b"".join(self._body),
        )
        self.requests.append((request, parser.should_keep_alive()))


def encoded(answer: HttpAnswer, *, keep_alive: bool, head: bool = False) -> bytes:
    """Status line, headers and body. `head`: the request was HEAD, the body stays here."""
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}",
        "Server: servable-local-container",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        "Connection: keep-alive" if keep_alive else "Connection: close",
        "\r\n",
    ]
    start = "\r\n".join(lines).encode("latin-1", "replace")
    return start if head else start + answer.body
