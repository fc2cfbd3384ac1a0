"""Routes of requests: to Gunicorn if there is code, else converted to a model server.

Source: nginx.conf.template and tensorflowServing.js in the image's public source
"""

import asyncio
import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

from servable_local.container.http_messages import (
    JSON,
    HttpAnswer,
    HttpRequest,
    error,
)
from servable_local.container.image_code import HEADER, AttributesError, ImageCode
from servable_local.container.nginx import conversion
from servable_local.container.nginx.upstream import (
    GunicornUpstream,
    ModelServersUpstream,
    UpstreamError,
)

# What a path is looked at more closely for.
_ODD = re.compile(r"%|//|/\.")
_ESCAPED = re.compile(r'[\x00-\x20"#%<>?\\^`{|}\x7f-\xff]')
_OF_A_BODY = ("Content-Length", "Transfer-Encoding")
# NGINX replaces these when it passes a request on.
_OWN = frozenset(
    b"host connection content-length content-type transfer-encoding te upgrade expect "
    b"keep-alive".split()
)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """`answer` for every request; NGINX's own pages for an upstream that is gone or too slow."""

    gunicorn: GunicornUpstream | None
    model_servers: ModelServersUpstream
    default_model: str
    image: ImageCode
    read_timeout_seconds: float

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        if _ODD.search(request.path):
            path = normalized(request.path)
            if path is None:
                return conversion.page(400, "Bad Request")
            request = replace(request, path=path)
        # Prefixes, as NGINX's locations are.
        if request.path.startswith("/tfs/"):
            route = self._relay
        elif request.path.startswith("/models") or (
            self.gunicorn and request.path.startswith(("/ping", "/invocations"))
        ):
            route = self._to_gunicorn
        elif request.path.startswith("/ping"):
            route = self._ping
        elif request.path.startswith("/invocations"):
            route = self._invoke
        else:
            return error(404, "Not Found")
        try:
            async with asyncio.timeout(self.read_timeout_seconds):
                return await route(request)
        except UpstreamError:
            return conversion.page(502, "Bad Gateway")
        except TimeoutError:
            return conversion.page(504, "Gateway Time-out")

    async def _to_gunicorn(self, request: HttpRequest) -> HttpAnswer:
        if self.gunicorn is None:
            raise UpstreamError("nobody listens on its socket")
        return await self.gunicorn.ask(passed_on(request))

    async def _ping(self, request: HttpRequest) -> HttpAnswer:
        """Whether any version of the default model is there, as the model server says it."""
        path = self._path(request, method=False)
        if isinstance(path, HttpAnswer):
            return path
        answer = await self.model_servers.ask("GET", path.rpartition(":")[0], b"")
        if answer.status == 200 and b'"AVAILABLE"' in answer.body:
            return HttpAnswer(200)
        return conversion.page(502, "Bad Gateway")

    async def _invoke(self, request: HttpRequest) -> HttpAnswer:
        content_type = request.headers.get("Content-Type")
        sent = request.body if has_body(request) else None
        body = conversion.converted(content_type, sent, self.image)
        if isinstance(body, HttpAnswer):
            return body
        path = self._path(request)
        if isinstance(path, HttpAnswer):
            return path
        try:
            answer = await self.model_servers.ask("POST", path, body)
        except UpstreamError:
            # The conversion's own subrequest: it hands the page on, as what it always answers.
            answer = replace(conversion.page(502, "Bad Gateway"), content_type=JSON)
        return conversion.accepted(request.headers.joined("Accept"), answer, self.image)

    async def _relay(self, request: HttpRequest) -> HttpAnswer:
        """/tfs/v1/…: the model server's own interface, with none of the caller's headers."""
        path = escaped(request.path.removeprefix("/tfs"))
        return await self.model_servers.ask(request.method, path, request.body)

    def _path(self, request: HttpRequest, *, method: bool = True) -> str | HttpAnswer:
        """The model server's, or the answer (400) to attributes that are wrong."""
        attributes = self.image.attributes_for_nginx(request.headers.joined(HEADER))
        if not method:
            attributes.pop("tfs-method", None)
        try:
            path = self.image.model_path(attributes, self.default_model)
        except AttributesError as problem:
            return conversion.refused(400, f"invalid {problem.attribute}", self.image)
        return escaped(path)


def has_body(request: HttpRequest) -> bool:
    """Whether the caller sent a body, be it empty."""
    return any(map(request.headers.get, _OF_A_BODY))


def normalized(path: str) -> str | None:
    """The path as NGINX reads it: decoded, without empty, `.` and `..` parts. None if it is invalid."""
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


def escaped(path: str) -> str:
    """The path as NGINX writes it to its upstreams."""
    return re.sub(_ESCAPED, lambda match: f"%{ord(match[0]):02X}", path)


def passed_on(request: HttpRequest) -> bytes:
    """The request for Gunicorn: HTTP/1.0 with the caller's headers, as NGINX writes it."""
    query = f"?{request.query}" if request.query else ""
    lines = [
        f"{request.method} {escaped(request.path)}{query} HTTP/1.0".encode("latin-1"),
        b"Host: gunicorn_upstream",
        b"Connection: close",
    ]
    if has_body(request):
        lines.append(b"Content-Length: %d" % len(request.body))
    # Gunicorn took the last of several types when it was observed, and refuses them since.
    for content_type in request.headers.values("Content-Type")[-1:]:
        lines.append(f"Content-Type: {content_type}".encode("latin-1"))
    for name, value in request.headers.pairs:
        if name.lower() not in _OWN:
            lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body
