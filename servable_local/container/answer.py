"""A request and its answer, as the parts of the container pass them to each other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"


class Headers(Protocol):
    """Finds a header however its name is spelled."""

    def get(self, name: str, /) -> str | None: ...


@dataclass(frozen=True)
class Request:
    """One HTTP request. `path` has no query."""

    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Answer:
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


def error(status: int, message: str) -> Answer:
    """A refusal in the form that model server and container share: {"error": "..."}."""
    return Answer(status, json.dumps({"error": message}).encode())
