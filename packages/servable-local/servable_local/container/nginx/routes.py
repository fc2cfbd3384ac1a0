"""Routes of requests: to Gunicorn if there is code, otherwise converted to a model server; the connections.

Source: nginx.conf.template and tensorflowServing.js in the image's public source, see image_code.py.
The traps of its conversion are kept: a test against the local container must not pass where the
image fails.
"""

import asyncio
import json
import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import httptools

from servable_local.container.http_messages import JSON, HttpRequest, HttpResponse, build_error
from servable_local.container.image_code import HEADER, AttributesError, ImageCode
from servable_local.container.ports import HOST
from servable_tensors.text_bodies import SPACE, from_csv, from_json, split_lines

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "server", "date", "keep-alive"}


class UpstreamError(Exception):
    """The upstream closed, or never listened: NGINX responds with 502."""


class UpstreamConnection(asyncio.Protocol):
    """A connection for one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._transport: Any = None
        self._answer: asyncio.Future[HttpResponse] | None = None

    async def send(self, request: bytes) -> HttpResponse:
        """Send a request, and return its response. Raises `UpstreamError`."""
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
        self._fail("the connection closed before a response arrived")

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
        content_type = JSON
        for name in list(headers):
            if name.lower() == "content-type":
                content_type = headers.pop(name)
        self.usable = self.usable and self._parser.should_keep_alive()
        body = b"".join(self._body)
        answer.set_result(HttpResponse(self._parser.get_status_code(), body, content_type, headers))

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(UpstreamError(reason))


class ModelServersUpstream:
    """Kept connections to the REST ports; each request goes to the next server in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = deque(ports)
        self._idle: dict[int, list[UpstreamConnection]] = {port: [] for port in ports}

    async def send(self, method: str, path: str, body: bytes) -> HttpResponse:
        """Send a request. Raises `UpstreamError` if no server takes it, or the one that did died."""
        # NGINX sends its group's name as Host; the REST port here takes its own only.
        start = f"{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\n"
        start += f"Content-Length: {len(body)}\r\nHost: {HOST}:"
        for _ in range(len(self._ports)):
            self._ports.rotate(-1)
            port = self._ports[0]
            connection = await self._open_connection(port)
            if connection is None:
                continue  # as NGINX: the next one, since nothing was sent yet
            try:
                head = f"{start}{port}\r\n\r\n".encode("latin-1", "replace")
                answer = await connection.send(head + body)
            except BaseException:
                connection.close()
                raise
            if connection.usable:
                self._idle[port].append(connection)
            return answer
        raise UpstreamError("no model server is listening")

    async def _open_connection(self, port: int) -> UpstreamConnection | None:
        while self._idle[port]:
            connection = self._idle[port].pop()
            if connection.usable:
                return connection
        try:
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(UpstreamConnection, HOST, port))[1]
        except OSError:
            return None


def convert_body(header: str | None, body: bytes | None, image: ImageCode) -> bytes | HttpResponse:
    """Return the model server's body, or a response for unsupported types. None: no body."""
    content_type = (header or "").encode("latin-1").decode(errors="surrogateescape")
    if image.rewritten:
        content_type = content_type.split(";")[0].strip(SPACE).lower()
    if content_type in (JSON, "application/jsonlines", "application/jsons"):
        return from_json(b"undefined" if body is None else body)  # as JavaScript writes it
    if content_type == "text/csv":
        if body is None:
            return build_error_page(500, "Internal Server Error")
        return from_csv(body) if image.rewritten else convert_csv_up_to_2_19(body)
    return build_rejection(415, f"Unsupported Media Type: {content_type or 'Unknown'}", image)


def build_rejection(status: int, sentence: str, image: ImageCode) -> HttpResponse:
    """Build an error response of NGINX's own."""
    if image.rewritten:
        text = json.dumps({"error": sentence}, ensure_ascii=False, separators=(",", ":"))
    else:
        text = f'{{"error": "{sentence}"}}'  # nothing is escaped there
    return HttpResponse(status, text.encode("utf-8", "surrogateescape"))


def convert_csv_up_to_2_19(body: bytes) -> bytes:
    """Convert lines of numbers, or of words; in words only the first comma is replaced."""
    text = body.decode(errors="surrogateescape")
    quoted = not re.match(r'\s*("|[\d.Ee+\-]+)', text, re.ASCII)
    rows = []
    for line in filter(None, split_lines(text)):
        several = "," in line
        if quoted:
            line = '"' + line.replace('"', '\\"', 1).replace(",", '","', 1) + '"'
        rows.append(f"[{line}]" if several else line)
    return f'{{"instances":[{",".join(rows)}]}}'.encode(errors="surrogateescape")


def apply_accept_header(accept: str | None, answer: HttpResponse, image: ImageCode) -> HttpResponse:
    """Remove the response's line breaks if the Accept header names JSON."""
    if image.rewritten:
        types = [each.strip(SPACE) for each in (accept or "").split(",")]
    else:
        types = (accept or "").strip(SPACE).replace(" ", "", 1).split(",")
    if "application/jsonlines" not in types and JSON not in types:
        return answer
    content_type = JSON if image.rewritten else types[0]
    return HttpResponse(answer.status, answer.body.replace(b"\n", b""), content_type)


def build_error_page(status: int, phrase: str) -> HttpResponse:
    """Build NGINX's own page for an error."""
    title = f"{status} {phrase}"
    text = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1>"
    text += "</center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    # The connection goes on behind an upstream's failure alone.
    return HttpResponse(status, text.encode(), "text/html", closes=status not in (502, 504))


# What a path is looked at more closely for.
_ODD = re.compile(r"%|//|/\.")
_ESCAPED = re.compile(r'[\x00-\x20"#%<>?\\^`{|}\x7f-\xff]')
# NGINX replaces these when it passes a request on.
_OWN = frozenset(
    b"host connection content-length content-type transfer-encoding te upgrade expect "
    b"keep-alive".split()
)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The routes of a plan, with NGINX's own pages for an upstream that is gone or too slow."""

    gunicorn: str | None
    """The name of its socket."""
    model_servers: ModelServersUpstream
    default_model: str
    image: ImageCode
    read_timeout_seconds: float

    async def respond(self, request: HttpRequest) -> HttpResponse:
        if _ODD.search(request.path):
            if (path := normalize_path(request.path)) is None:
                return build_error_page(400, "Bad Request")
            request = replace(request, path=path)
        # Prefixes, as NGINX's locations are.
        if request.path.startswith("/tfs/"):
            route = self._relay
        elif request.path.startswith("/models") or (
            self.gunicorn and request.path.startswith(("/ping", "/invocations"))
        ):
            route = self._forward_to_gunicorn
        elif request.path.startswith("/ping"):
            route = self._respond_to_ping
        elif request.path.startswith("/invocations"):
            route = self._invoke
        else:
            return build_error(404, "Not Found")
        try:
            async with asyncio.timeout(self.read_timeout_seconds):
                return await route(request)
        except AttributesError as problem:
            return build_rejection(400, f"invalid {problem.attribute}", self.image)
        except UpstreamError:
            return build_error_page(502, "Bad Gateway")
        except TimeoutError:
            return build_error_page(504, "Gateway Time-out")

    async def _forward_to_gunicorn(self, request: HttpRequest) -> HttpResponse:
        """Forward it on a connection of its own: NGINX keeps none to its upstreams."""
        if self.gunicorn is None:
            raise UpstreamError("no Gunicorn process is listening on the socket")
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(UpstreamConnection, self.gunicorn)
        except OSError as error:
            raise UpstreamError(str(error)) from None
        try:
            return await connection.send(build_gunicorn_request(request))
        finally:
            connection.close()

    async def _respond_to_ping(self, request: HttpRequest) -> HttpResponse:
        """Respond whether the model server has any version of the default model."""
        path = self._build_path(request, method=False).rpartition(":")[0]
        answer = await self.model_servers.send("GET", path, b"")
        if answer.status == 200 and b'"AVAILABLE"' in answer.body:
            return HttpResponse(200)
        return build_error_page(502, "Bad Gateway")

    async def _invoke(self, request: HttpRequest) -> HttpResponse:
        content_type = request.headers.find_value("Content-Type")
        sent = request.body if has_body(request) else None
        body = convert_body(content_type, sent, self.image)
        if isinstance(body, HttpResponse):
            return body
        path = self._build_path(request)
        try:
            answer = await self.model_servers.send("POST", path, body)
        except UpstreamError:
            # The conversion's own subrequest: it passes the page on with its usual content type.
            answer = replace(build_error_page(502, "Bad Gateway"), content_type=JSON)
        return apply_accept_header(request.headers.join_values("Accept"), answer, self.image)

    async def _relay(self, request: HttpRequest) -> HttpResponse:
        """Relay /tfs/v1/… to the model server's own interface, without the caller's headers."""
        path = escape_path(request.path.removeprefix("/tfs"))
        return await self.model_servers.send(request.method, path, request.body)

    def _build_path(self, request: HttpRequest, *, method: bool = True) -> str:
        """Return the model server's path. Raises `AttributesError`."""
        attributes = self.image.parse_nginx_attributes(request.headers.join_values(HEADER))
        if not method:
            attributes.pop("tfs-method", None)
        return escape_path(self.image.build_model_path(attributes, self.default_model))


def has_body(request: HttpRequest) -> bool:
    """Return whether the caller sent a body, even an empty one."""
    return any(map(request.headers.find_value, ("Content-Length", "Transfer-Encoding")))


def normalize_path(path: str) -> str | None:
    """Decode a path as NGINX does, without empty, `.`, and `..` parts. None: it is invalid."""
    if re.search(r"%(?![0-9a-fA-F]{2})|%00", path):
        return None
    parts: list[str] = []
    for part in unquote(path, "latin-1").split("/")[1:]:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    is_folder = part in ("", ".", "..")
    return "/" + "".join(f"{each}/" for each in parts)[: None if is_folder else -1]


def escape_path(path: str) -> str:
    """Escape a path as NGINX does for its upstreams."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", path)


def build_gunicorn_request(request: HttpRequest) -> bytes:
    """Build the request for Gunicorn: HTTP/1.0 with the caller's headers, as NGINX writes it."""
    query = f"?{request.query}" if request.query else ""
    lines = [
        f"{request.method} {escape_path(request.path)}{query} HTTP/1.0".encode("latin-1"),
        b"Host: gunicorn_upstream",
        b"Connection: close",
    ]
    if has_body(request):
        lines.append(b"Content-Length: %d" % len(request.body))
    # Gunicorn used the last of several types when it was observed; later versions reject several.
    for content_type in request.headers.list_values("Content-Type")[-1:]:
        lines.append(f"Content-Type: {content_type}".encode("latin-1"))
    for name, value in request.headers.pairs:
        if name.lower() not in _OWN:
            lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body
