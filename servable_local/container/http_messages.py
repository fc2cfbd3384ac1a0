"""HTTP requests and answers: as the container's processes pass them on, and as bytes.

Requests that a web page in the developer's browser can send to a port of 127.0.0.1 are refused.
A page of any site can send requests to ports of the computer on which the browser runs. The
browser marks them: with an Origin header (every POST, and every request whose answer the page
may read), or, where the page's own name was made to resolve to 127.0.0.1 (DNS rebinding), with
a Host header that holds the page's name. Programs send neither.

Sources: https://fetch.spec.whatwg.org/#origin-header, https://www.rfc-editor.org/rfc/rfc9112#section-3.2
"""

import functools
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import httptools

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


_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # the only one that a Host header leaves out
_LONGEST_SHOWN = 100


@functools.cache  # asked for every connection
def own_hosts(port: int) -> frozenset[bytes]:
    """The values of a Host header, in lower case, that name a server on this port."""
    hosts = {f"{name}:{port}".encode() for name in _NAMES}
    if port == _HTTP_PORT:
        hosts |= {name.encode() for name in _NAMES}
    return frozenset(hosts)


def refusal(
    allowed: frozenset[bytes], *, hosts: Sequence[bytes], origin: bytes | None, target: bytes
) -> tuple[int, str] | None:
    """HTTP status and sentence for a request that does not go through; None for one that does.

    `allowed`: see `own_hosts`. `hosts`: the values of all its Host headers. `origin`: the value
    of an Origin header, where there is one. `target`: the request line's second word.
    """
    if origin is not None:
        return 403, (
            f"Origin {_shown(origin)}: requests of web pages are refused, whatever their site; "
            "call this address from a program that sends no Origin header"
        )
    if len(hosts) != 1:
        count = "no Host header" if not hosts else f"{len(hosts)} Host headers"
        return 400, f"{count} in the request; send exactly one: {_one_of(allowed)}"
    if hosts[0].lower() not in allowed:
        return 403, (
            f"Host {_shown(hosts[0])}: not an address of this server; allowed: {_one_of(allowed)}"
        )
    if not target.startswith(b"/"):
        return 400, f"request target {_shown(target)}: send the path alone, beginning with '/'"
    return None


def _shown(value: bytes) -> str:
    return repr(value[:_LONGEST_SHOWN].decode("latin-1"))


def _one_of(allowed: frozenset[bytes]) -> str:
    return ", ".join(sorted(host.decode() for host in allowed))


_REASONS = {status.value: status.phrase for status in HTTPStatus}


class BadRequestError(Exception):
    """The bytes are not HTTP/1.1; `str()` says why."""


class HeaderFields:
    """The headers of one request, in their order; found however their names are spelled."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self.pairs = pairs

    def get(self, name: str, /) -> str | None:
        wanted = name.lower().encode()
        for key, value in self.pairs:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None


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
        self._begin()

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

    def _begin(self) -> None:
        self._target = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._hosts: list[bytes] = []
        self._origin: bytes | None = None

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._begin()

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
        "Server: local-endpoint",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        "Connection: keep-alive" if keep_alive else "Connection: close",
        "\r\n",
    ]
    start = "\r\n".join(lines).encode("latin-1", "replace")
    return start if head else start + answer.body
