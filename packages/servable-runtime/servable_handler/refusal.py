"""Errors of requests, and their conversion to what the container's Falcon sends to the caller."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from servable_tensors import TensorError, TensorTooLargeError

JSON = "application/json"


class RequestError(Exception):
    """An HTTP status and a message: what was sent, what is allowed, what to do."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: int | None = None):
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def refusal_of(error: RequestError | TensorError) -> RequestError:
    """The error for the caller: 400 for a body that cannot be read, 413 for a too large one."""
    if isinstance(error, RequestError):
        return error
    return RequestError(413 if isinstance(error, TensorTooLargeError) else 400, str(error))


def falcon_answer(
    status: int, body: bytes, content_type: str, headers: Mapping[str, str], sentence: str = ""
) -> Exception:
    """An exception that Falcon turns into exactly this answer, whatever the request accepts.

    A handler can only return a 200 and must raise every other status as a falcon.HTTPError, because
    the container passes on only those. But Falcon drops an HTTPError's body unless the caller accepts
    JSON or XML. Falcon sends an HTTPStatus unchanged, and one that is raised while Falcon handles an
    error replaces that error (falcon/app.py, _handle_exception).
    """
    return _answer_class()(status, body, content_type, headers, sentence)


@cache
def _answer_class() -> type[Exception]:
    """Made once: making a class takes longer than most refusals."""
    import falcon

    class Answer(falcon.HTTPError):  # type: ignore[misc]
        def __init__(
            self,
            status: int,
            body: Any,  # bytes pass through Falcon unchanged; its annotation knows only str
            content_type: str,
            headers: Mapping[str, str],
            sentence: str,
        ) -> None:
            super().__init__(falcon.code_to_http_status(status))
            self._answer = body, {"Content-Type": content_type, **headers}
            self._sentence = sentence

        def __str__(self) -> str:
            return self._sentence

        @property
        def headers(self) -> Mapping[str, str]:
            text, headers = self._answer
            raise falcon.HTTPStatus(self.status, headers=headers, text=text)

        @headers.setter
        def headers(self, _: object) -> None:
            """Falcon's own constructor sets None."""

    return Answer


def as_falcon(refusal: RequestError, headers: Mapping[str, str]) -> Exception:
    """The exception to raise for an error, with `headers` in addition to its own."""
    seconds = refusal.retry_after_seconds
    own = {} if seconds is None else {"Retry-After": str(seconds)}
    # The model server and NGINX use this body as well.
    body = json.dumps({"error": refusal.message}).encode()
    return falcon_answer(refusal.status, body, JSON, own | dict(headers), refusal.message)
