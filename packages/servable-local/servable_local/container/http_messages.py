"""HTTP requests and responses: parsed, as the container's processes pass them on, and as bytes."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

from servable_local.protection import explain_rejection, list_own_hosts

JSON = "application/json"


@dataclass(frozen=True)
class HeaderFields:
    """The headers of one request, in their order, with case-insensitive names."""

    pairs: list[tuple[bytes, bytes]]

    def list_values(self, name: str) -> list[str]:
        """Return every value of a header that may be repeated."""
        lower = name.lower().encode()
        return [text.decode("latin-1") for key, text in self.pairs if key.lower() == lower]

    def find_value(self, name: str) -> str | None:
        """Return the first value, or None."""
        return next(iter(self.list_values(name)), None)

    def join_values(self, name: str) -> str | None:
        """Return all values as njs joins them for most headers; not for Content-Type."""
        return ", ".join(self.list_values(name)) or self.find_value(name)


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request. `path` excludes the query."""

    method: str
    path: str
    headers: HeaderFields
    body: bytes
    query: str = ""


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    """Whether NGINX closes the connection after it."""


class HttpError(Exception):
    """The model server's rejection of a request: an HTTP status and TensorFlow's message."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def build_error(status: int, message: str) -> HttpResponse:
    """Build a rejection in the format of model server and container: {"error": "..."}."""
    return HttpResponse(status, json.dumps({"error": message}).encode())


_REASONS = {status.value: status.phrase for status in HTTPStatus}


def encode_response(answer: HttpResponse, *, keep_alive: bool, head: bool = False) -> bytes:
    """Return status line, headers, and body. `head`: the request was HEAD, omit the body."""
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


class BadRequestError(Exception):
    """A request that is rejected before any route. `str()` is the reason."""

    def __init__(self, reason: str, status: int = 400, phrase: str = "Bad Request") -> None:
        super().__init__(reason)
        self.status, self.phrase = status, phrase


# large_client_header_buffers, which the image leaves at its default of four times 8 KB.
_MAX_LINE_BYTES = 8192
_MAX_HEAD_BYTES = 4 * _MAX_LINE_BYTES


class RequestReader:
    """A parser of a connection's requests, by llhttp. `requests` gets (request, keep alive).

    If a web page may have sent a request, `requests` has the response that rejects it instead.
    """

    def __init__(self, port: int) -> None:
        """Initialize for the server's `port`, which a Host header has to name."""
        self.requests: deque[tuple[HttpRequest | HttpResponse, bool]] = deque()
        self.wants_continue = False
        """The caller waits for a "100 Continue" before it sends the body."""
        self._own_hosts = list_own_hosts(port)
        self._parser = httptools.HttpRequestParser(self)
        self._data = b""
        # None: the head is complete.
        self._head_bytes: int | None = None

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Raises `BadRequestError`."""
        while data:
            self._data, data = data, b""
            try:
                self._parser.feed_data(self._data)
            except httptools.HttpParserUpgrade as upgrade:
                # NGINX ignores the header Upgrade. llhttp reads no body after it, so it gets the
                # request again without that header.
                pairs = [pair for pair in self._headers.pairs if pair[0].lower() != b"upgrade"]
                version = self._parser.get_http_version().encode()
                first = b"%s %s HTTP/%s" % (self._parser.get_method(), self._target, version)
                head = [first, *(b"%s: %s" % pair for pair in pairs), b"\r\n"]
                data = b"\r\n".join(head) + self._data[upgrade.args[0] :]
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError as problem:
                if isinstance(problem.__context__, BadRequestError):
                    raise problem.__context__ from None
                raise BadRequestError(str(problem)) from None
        if self._head_bytes is not None:
            # The parser keeps the beginning of a line to itself.
            self._head_bytes += len(self._data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                raise _build_too_long_error()

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._target, self._headers = b"", HeaderFields([])
        self._body: list[bytes] = []
        self._head_bytes = -len(self._data)

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > _MAX_LINE_BYTES:
            raise BadRequestError("the request line is too long", 414, "Request-URI Too Large")

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) + len(value) > _MAX_LINE_BYTES - len(": \r\n"):
            raise _build_too_long_error()
        # NGINX drops names with other characters, such as "_".
        if name.replace(b"-", b"").isalnum():
            self._headers.pairs.append((name, value.rstrip(b" ")))

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if method in (b"TRACE", b"CONNECT"):
            raise BadRequestError(f"{method.decode()} is not allowed", 405, "Not Allowed")
        if version not in ("1.0", "1.1"):
            raise BadRequestError(f"HTTP/{version} isn't served")
        headers = self._headers
        if (headers.find_value("Transfer-Encoding") or "chunked").lower() != "chunked":
            raise BadRequestError("the Transfer-Encoding must be chunked")
        hosts = [host.encode("latin-1") for host in headers.list_values("Host")]
        if len(hosts) != 1 or not hosts[0]:
            raise BadRequestError("the request must have exactly one Host header with a value")
        origin = headers.find_value("Origin")
        self._rejection = explain_rejection(
            self._own_hosts,
            hosts=hosts,
            origin=None if origin is None else origin.encode("latin-1"),
            target=self._target,
        )
        self.wants_continue = (headers.find_value("Expect") or "").lower() == "100-continue"

    def on_body(self, part: bytes) -> None:
        if self._rejection is None:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return  # `feed` starts it again
        self.wants_continue = False
        if self._rejection is not None:
            self.requests.append((build_error(*self._rejection), False))
            return
        path, _, query = self._target.decode("latin-1").partition("#")[0].partition("?")
        method, body = self._parser.get_method().decode(), b"".join(self._body)
        request = HttpRequest(method, path, self._headers, body, query)
        self.requests.append((request, self._parser.should_keep_alive()))


def _build_too_long_error() -> BadRequestError:
    return BadRequestError("the headers are too long", phrase="Request Header Or Cookie Too Large")
