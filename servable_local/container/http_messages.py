"""HTTP requests and answers: as the container's processes pass them on, and as bytes."""

import json
import re
from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from servable_local.cross_origin import own_hosts, refusal

JSON = "application/json"


@dataclass(frozen=True)
class HeaderFields:
    """The headers of one request, in their order; found however their names are spelled."""

    pairs: list[tuple[bytes, bytes]]

    def values(self, name: str) -> list[str]:
        """Return every value of a header that may be repeated."""
        lower = name.lower().encode()
        return [text.decode("latin-1") for key, text in self.pairs if key.lower() == lower]

    def get(self, name: str) -> str | None:
        """Return the first value, if there is one."""
        return next(iter(self.values(name)), None)

    def joined(self, name: str) -> str | None:
        """Return all values as njs does for most headers; not for Content-Type."""
        return ", ".join(self.values(name)) or self.get(name)


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request. `path` has no query."""

    method: str
    path: str
    headers: HeaderFields
    body: bytes
    query: str = ""


@dataclass(frozen=True)
class HttpAnswer:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    """Whether NGINX closes the connection after it."""


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
    """Bytes that NGINX refuses with a page of its own. `str()` says why."""

    def __init__(self, reason: str, status: int = 400, phrase: str = "Bad Request") -> None:
        super().__init__(reason)
        self.status, self.phrase = status, phrase


_BLANK_LINE, _LINE_END = re.compile(rb"\n\r?\n"), re.compile(rb"\n")
_METHOD_SO_FAR = re.compile(rb"[A-Z_-]*(?: |\Z)")
# A path, or a whole address; of a version from 2 on nothing more is read.
_REQUEST_LINE = re.compile(
    rb"([A-Z_-]+) +((?:/|[A-Za-z][A-Za-z0-9+.-]*://)[^\x00-\x20\x7f]*) +"
    rb"HTTP/(?:1\.([0-9]{1,3}) *|(?:[2-9]|1[0-9]).*)"
)
# A line without a colon is a header without a value.
_HEADER = re.compile(rb"([^\x00-\x20:\x7f]+)(?:: *([^\0\r]*?) *)?")
_CHUNK = re.compile(rb"([0-9a-fA-F]+)(?:[ \t;][^\r]*)?")
_MOST_CHUNK_BYTES = (1 << 63) - 1
_ONCE = tuple(
    b"host content-length transfer-encoding expect authorization if-match if-none-match "
    b"if-modified-since if-unmodified-since if-range".split()
)
# large_client_header_buffers, which the image leaves at its default of four times 8 KB.
_MOST_LINE_BYTES = 8192
_MOST_HEAD_BYTES = 4 * _MOST_LINE_BYTES
# Observed on 2026-11-28: the security release 1.22.1-9+deb12u11 refuses more.
_MOST_HEADERS = 1000
_Reading = Generator[None, bytes, bytes]


class RequestReader:
    """`feed` it what comes in; `requests` fills with (request, keep alive).

    It takes and refuses what NGINX does. In the place of a request that a web page may have sent
    stands the answer that refuses it, with keep alive False.
    Source: ngx_http_parse.c and ngx_http_request.c of NGINX 1.22
    """

    def __init__(self, port: int) -> None:
        """`port`: the server's, which a Host header has to name."""
        self.requests: deque[tuple[HttpRequest | HttpAnswer, bool]] = deque()
        self.wants_continue = False
        """The caller waits for a "100 Continue" before it sends the body."""
        self._own_hosts = own_hosts(port)
        self._data = b""
        self._reading = self._read()
        next(self._reading)

    def feed(self, data: bytes) -> None:
        """Raises `BadRequestError`."""
        self._reading.send(data)

    def _read(self) -> Generator[None, bytes, None]:
        while True:
            while not self._data:
                self._data = (yield).lstrip(b"\r\n")
            head = yield from self._until(_BLANK_LINE, is_head=True)
            line, *lines = head.split(b"\n")
            method, target, version = _request_line(line.removesuffix(b"\r"))
            headers = _headers(lines)
            if not headers.get("Host") and (version >= (1, 1) or headers.get("Host") == ""):
                raise BadRequestError("no Host header, or an empty one")
            chunked = _is_chunked(headers, version)
            if method in ("TRACE", "CONNECT"):
                raise BadRequestError(f"{method} is not allowed", 405, "Not Allowed")
            self.wants_continue = (headers.get("Expect") or "").lower() == "100-continue"
            origin = headers.get("Origin")
            if chunked:
                body = yield from self._chunks()
            else:
                body = yield from self._bytes(
                    int(headers.get("Content-Length") or 0), kept=origin is None
                )
            self.wants_continue = False
            self._data = self._data.lstrip(b"\r\n")
            refused = refusal(
                self._own_hosts,
                hosts=[host.encode("latin-1") for host in headers.values("Host")],
                origin=None if origin is None else origin.encode("latin-1"),
                target=target,
            )
            if refused is not None:
                self.requests.append((error(*refused), False))
                continue
            path, _, query = target.decode("latin-1").partition("#")[0].partition("?")
            connection = (headers.get("Connection") or "").lower()
            keep_alive = "close" not in connection and (
                version >= (1, 1) or "keep-alive" in connection
            )
            self.requests.append((HttpRequest(method, path, headers, body, query), keep_alive))

    def _until(self, end: re.Pattern[bytes], *, is_head: bool = False) -> _Reading:
        """Take what comes before `end`. The beginning of a head that is none is refused at once."""
        while (found := end.search(self._data)) is None:
            if is_head:
                _refuse_long_head(self._data)
                _refuse_head_so_far(self._data)
            self._data += yield
        taken, self._data = self._data[: found.start()], self._data[found.end() :]
        if is_head:
            _refuse_long_head(taken + b"\n")
        return taken

    def _bytes(self, count: int, *, kept: bool = True) -> _Reading:
        """Take so many bytes. `kept`: False for those of a request that will be refused."""
        parts, missing = [], count
        while True:
            part, self._data = self._data[:missing], self._data[missing:]
            missing -= len(part)
            if kept:
                parts.append(part)
            if not missing:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            self._data = yield

    def _chunks(self) -> _Reading:
        parts = []
        while True:
            line = yield from self._until(_LINE_END)
            size = _CHUNK.fullmatch(line.removesuffix(b"\r"))
            if size is None or int(size[1], 16) > _MOST_CHUNK_BYTES:
                raise BadRequestError("invalid size of a chunk")
            if not int(size[1], 16):
                break
            parts.append((yield from self._bytes(int(size[1], 16))))
            if (yield from self._until(_LINE_END)) not in (b"", b"\r"):
                raise BadRequestError("a chunk is longer than its size")
        while (yield from self._until(_LINE_END)) not in (b"", b"\r"):
            pass  # trailers
        return b"".join(parts)


def _refuse_head_so_far(head: bytes) -> None:
    """Raise `BadRequestError` where NGINX waits for no more: its lines are read as they come."""
    line, *lines = head.split(b"\n")
    if not _METHOD_SO_FAR.match(line):
        raise BadRequestError("invalid method")
    if lines:
        _request_line(line.removesuffix(b"\r"))
        _headers(lines[:-1])
        if lines[-1].startswith(b"\r") and lines[-1] != b"\r":
            raise BadRequestError("invalid end of the headers")


def _refuse_long_head(head: bytes) -> None:
    """Raise `BadRequestError` for a head that needs larger buffers."""
    if len(head) <= _MOST_LINE_BYTES or not _METHOD_SO_FAR.match(head[:_MOST_LINE_BYTES]):
        return
    first, *others = map(len, head.split(b"\n"))
    if first >= _MOST_LINE_BYTES:
        raise BadRequestError("the request line is too long", 414, "Request-URI Too Large")
    if len(head) > _MOST_HEAD_BYTES or max(others) >= _MOST_LINE_BYTES:
        phrase = "Request Header Or Cookie Too Large"
        raise BadRequestError("the headers are too long", phrase=phrase)


def _request_line(line: bytes) -> tuple[str, bytes, tuple[int, int]]:
    """Method, target and version. Raises `BadRequestError`."""
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise BadRequestError("invalid request line")
    if match[3] is None:
        raise BadRequestError("HTTP/2 and later", 505, "HTTP Version Not Supported")
    return match[1].decode(), match[2], (1, int(match[3]))


def _headers(lines: list[bytes]) -> HeaderFields:
    """Raises `BadRequestError`. Names with other letters than those of NGINX are left out."""
    pairs = []
    if len(lines) > _MOST_HEADERS:
        raise BadRequestError(f"more than {_MOST_HEADERS} headers")
    for line in lines:
        match = _HEADER.fullmatch(line.rstrip(b"\r"))
        if match is None:
            raise BadRequestError("invalid header")
        if match[1].replace(b"-", b"").isalnum() or match[1] == b"-":
            pairs.append((match[1], match[2] or b""))
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names) and any(names.count(name) > 1 for name in _ONCE):
        raise BadRequestError("a header that is allowed once is there twice")
    return HeaderFields(pairs)


def _is_chunked(headers: HeaderFields, version: tuple[int, int]) -> bool:
    """Whether the body comes in chunks. Raises `BadRequestError` for a body without a clear end."""
    length, encoding = headers.get("Content-Length"), headers.get("Transfer-Encoding")
    if length is not None and not re.fullmatch("[0-9]{1,18}", length):
        raise BadRequestError("invalid Content-Length")
    if encoding is None:
        return False
    if version < (1, 1):
        raise BadRequestError("Transfer-Encoding in HTTP/1.0")
    if encoding.lower() != "chunked":
        raise BadRequestError(f"Transfer-Encoding: {encoding}", 501, "Not Implemented")
    if length is not None:
        raise BadRequestError("Content-Length and Transfer-Encoding")
    return True


def encoded(answer: HttpAnswer, *, keep_alive: bool, head: bool = False) -> bytes:
    """Status line, headers and body. `head`: the request was HEAD, the body stays here."""
    of_body = [f"Content-Type: {answer.content_type}", f"Content-Length: {len(answer.body)}"]
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}",
        "Server: servable-local-container",
        *(of_body if answer.status != 304 else ()),
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        "Connection: keep-alive" if keep_alive else "Connection: close",
        "\r\n",
    ]
    start = "\r\n".join(lines).encode("latin-1", "replace")
    return start if head else start + answer.body
