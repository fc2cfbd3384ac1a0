"""HTTP requests and answers: as the container's processes pass them on, and as bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

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


def encoded(answer: HttpAnswer, *, keep_alive: bool, head: bool = False) -> bytes:
    """Status line, headers and body. `head`: the request was HEAD, the body stays here."""
    of_body = [f"Content-Type: {answer.content_type}", f"Content-Length: {len(answer.body)}"]
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}",
        "Server: servable-local-container",
        *of_body,
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        "Connection: keep-alive" if keep_alive else "Connection: close",
        "\r\n",
    ]
    start = "\r\n".join(lines).encode("latin-1", "replace")
    return start if head else start + answer.body
