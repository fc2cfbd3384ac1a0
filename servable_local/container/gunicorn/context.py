"""What a handler is told of its request."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from servable_local.container import custom_attributes
from servable_local.container.http_messages import JSON
from servable_local.container.ports import HOST


class Context(NamedTuple):
    """Names and order are the container's."""

    model_name: str | None
    model_version: str | None
    method: str | None
    rest_uri: str
    grpc_port: str | None
    channel: object
    custom_attributes: str | None
    request_content_type: str
    accept_header: str
    content_length: int | None
    timeout: float


class _Headers:
    """A Falcon request's headers in the form that custom_attributes reads."""

    def __init__(self, get_header: Callable[[str], str | None]) -> None:
        self.get = get_header


def attributes_of(request: Any) -> Mapping[str, str]:
    """Raises `ValueError` for a value with an "=" in it, as the image's parser does."""
    return custom_attributes.parse(_Headers(request.get_header))


def context(
    request: Any,
    *,
    attributes: Mapping[str, str],
    model: str | None,
    default_model: str,
    rest_port: str,
    grpc_port: str,
    channel: object,
    timeout_seconds: float,
) -> Context:
    """`model`: of the path in multi-model mode; None leaves it to the header."""
    name = model or attributes.get("tfs-model-name")
    path = custom_attributes.model_path(attributes, default_model, model=model)
    return Context(
        model_name=name,
        model_version=attributes.get("tfs-model-version"),
        method=attributes.get("tfs-method"),
        rest_uri=f"http://{HOST}:{rest_port}{path}",
        grpc_port=grpc_port,
        channel=channel,
        custom_attributes=request.get_header(custom_attributes.HEADER),
        request_content_type=request.get_header("Content-Type") or JSON,
        accept_header=request.get_header("Accept") or JSON,
        content_length=request.content_length,
        timeout=timeout_seconds,
    )
