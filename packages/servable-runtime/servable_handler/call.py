"""The target of one request: model, version, signature, method and deadline."""

import re
import time
from typing import Any, NamedTuple

from servable_handler.refusal import RequestError
from servable_tensors.predict_messages import model_spec, model_spec_bytes

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
        """Path of the request in the model server's REST interface."""
        version = f"/versions/{self.version}" if self.version is not None else ""
        return f"/v1/models/{self.model}{version}:{self.method}"

    def overriding(self, *, body_names_model: bool) -> bytes:
        """Bytes to append to a serialized request, in which a later field wins, as the URL does in REST.

        A body that names no model gets the default one; a model that it names stays, unless the
        caller's custom attributes name another.
        """
        named_here = body_names_model and not self.model_named
        return model_spec_bytes("" if named_here else self.model, self.version, self.signature)

    def model_spec(self) -> Any:
        """The wire.ModelSpec of a gRPC request."""
        return model_spec(self.model, self.version, self.signature)


class Aim(NamedTuple):
    """The target that all requests with the same headers have."""

    model: str
    version: int | None
    signature: str | None
    method: str
    model_named: bool

    def within(self, seconds: float) -> Call:
        return Call(*self, time.monotonic() + seconds)


def timeout_of(context: Any, most_seconds: float | None = None) -> float:
    """The container's timeout in seconds, or `most_seconds` if that is less."""
    timeout = float(getattr(context, "timeout", None) or DEFAULT_TIMEOUT_SECONDS)
    return timeout if most_seconds is None else min(timeout, most_seconds)


def aim_of(context: Any, attributes: str | None) -> Aim:
    """The target that the container's context and its custom attributes name. Raises `RequestError`."""
    version, method = context.model_version, (context.method or "predict").lower()
    # The version is a signed 64-bit number in the message.
    if version and not (re.fullmatch("[0-9]+", version) and int(version[:20]) < 1 << 63):
        raise RequestError(400, f"tfs-model-version: {version!r:.40} is not a version; send digits")
    if method not in METHODS:
        raise RequestError(400, f"tfs-method: {method!r:.40} is unknown; send {', '.join(METHODS)}")
    signature = _SIGNATURE.search(attributes) if attributes else None
    path = _PATH.search(context.rest_uri)
    return Aim(
        model=context.model_name or (path["model"] if path else "model"),
        version=int(version) if version else None,
        signature=signature[1].strip() if signature else None,
        method=method,
        model_named=bool(context.model_name),
    )
