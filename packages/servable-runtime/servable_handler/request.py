"""One request: its target and deadline, and its error as the container's Falcon sends it."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from servable_tensors import TensorError, TensorTooLargeError
from servable_tensors.predict_messages import build_model_spec, serialize_model_spec

JSON = "application/json"


class RequestError(Exception):
    """The error of a request: its HTTP status, and a message with what came and what to do."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: int | None = None):
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def convert_error(error: RequestError | TensorError) -> RequestError:
    """Return the error for the caller: 400 for a body that cannot be read, 413 for one too large."""
    if isinstance(error, RequestError):
        return error
    return RequestError(413 if isinstance(error, TensorTooLargeError) else 400, str(error))


def build_falcon_exception(
    status: int, body: bytes, content_type: str, headers: Mapping[str, str], sentence: str = ""
) -> Exception:
    """Return an exception that Falcon turns into exactly this response.

    The response doesn't depend on what the request accepts. A handler can only return a 200 and
    must raise every other status as a falcon.HTTPError, because the container passes on only
    those. But Falcon drops an HTTPError's body unless the caller accepts JSON or XML. Falcon
    sends an HTTPStatus unchanged, and one that is raised while Falcon handles an error replaces
    that error (falcon/app.py, _handle_exception).
    """
    return _create_exception_class()(status, body, content_type, headers, sentence)


@cache
def _create_exception_class() -> type[Exception]:
    """Return the exception class, created once. Creating a class takes longer than most error responses."""
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


def as_falcon_exception(refusal: RequestError, headers: Mapping[str, str]) -> Exception:
    """Return the exception to raise for an error, with `headers` in addition to its own."""
    seconds = refusal.retry_after_seconds
    own = {} if seconds is None else {"Retry-After": str(seconds)}
    # The model server and NGINX use this body as well.
    body = json.dumps({"error": refusal.message}).encode()
    return build_falcon_exception(refusal.status, body, JSON, own | dict(headers), refusal.message)


DEFAULT_SIGNATURE = "serving_default"
METHODS = ("predict", "classify", "regress")
# The image's own default (its README); older images pass no timeout to the handler.
DEFAULT_TIMEOUT_SECONDS = 60.0

_PATH = re.compile(r"/v1/models/(?P<model>.+?)(?:/versions/[^/:]*)?:[^:/]*$")
_SIGNATURE = re.compile(r"tfs-signature-name=([^,]+)")


class Call(NamedTuple):
    """The target of one request. `signature` is None if the caller named none."""

    model: str
    version: int | None
    signature: str | None
    method: str
    model_named: bool
    """Whether the caller named the model; else it is the container's default model."""
    deadline: float
    """Deadline on time.monotonic()'s clock, in seconds."""

    @property
    def path(self) -> str:
        """Return the request's path in the model server's REST interface."""
        version = f"/versions/{self.version}" if self.version is not None else ""
        return f"/v1/models/{self.model}{version}:{self.method}"

    def build_override(self, *, body_names_model: bool) -> bytes:
        """Return bytes to append to a serialized request, which override its model spec.

        A later field wins, as the URL does in REST. A body that names no model gets the default
        one. A model that the body names stays, unless the caller's custom attributes name
        another.
        """
        named_here = body_names_model and not self.model_named
        return serialize_model_spec("" if named_here else self.model, self.version, self.signature)

    def build_model_spec(self) -> Any:
        """Return the wire.ModelSpec of a gRPC request."""
        return build_model_spec(self.model, self.version, self.signature)


def build_call(context: Any, attributes: str | None) -> Call:
    """Return the target that context and attributes name, for any deadline. Raises `RequestError`."""
    version, method = context.model_version, (context.method or "predict").lower()
    # The version is a signed 64-bit number in the message.
    if version and not (re.fullmatch("[0-9]+", version) and int(version[:20]) < 1 << 63):
        raise RequestError(400, f"tfs-model-version: {version!r:.40} isn't a version; send digits")
    if method not in METHODS:
        raise RequestError(400, f"tfs-method: {method!r:.40} is unknown; send {', '.join(METHODS)}")
    signature = _SIGNATURE.search(attributes) if attributes else None
    path = _PATH.search(context.rest_uri)
    return Call(
        model=context.model_name or (path["model"] if path else "model"),
        version=int(version) if version else None,
        signature=signature[1].strip() if signature else None,
        method=method,
        model_named=bool(context.model_name),
        deadline=0.0,
    )
