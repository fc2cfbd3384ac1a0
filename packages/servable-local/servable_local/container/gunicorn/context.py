"""The context of a request that a handler gets."""

from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from servable_local.container.http_messages import JSON
from servable_local.container.image_code import HEADER, ImageCode
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
    timeout: int


# Up to 2.19 a context has no timeout.
_UpTo219 = cast(Any, namedtuple)("Context", Context._fields[:-1])


class CallTarget(TypedDict):
    """Target of a request. `model`: from the path in multi-model mode; None leaves it to the header."""

    model: str | None
    default_model: str
    rest_port: str
    grpc_port: str
    channel: object
    timeout_seconds: int


def context(
    request: Any, image: ImageCode, *, attributes: Mapping[str, str], **where: Unpack[CallTarget]
) -> Context:
    """Raises `AttributesError`."""
    path = image.model_path(attributes, where["default_model"], model=where["model"])
    newest = Context(
        model_name=where["model"] or attributes.get("tfs-model-name"),
        model_version=attributes.get("tfs-model-version"),
        method=attributes.get("tfs-method"),
        rest_uri=f"http://{HOST}:{where['rest_port']}{path}",
        grpc_port=where["grpc_port"],
        channel=where["channel"],
        custom_attributes=request.get_header(HEADER),
        request_content_type=request.get_header("Content-Type") or JSON,
        accept_header=request.get_header("Accept") or JSON,
        content_length=request.content_length,
        timeout=where["timeout_seconds"],
    )
    return newest if image.rewritten else cast(Context, _UpTo219(*newest[:-1]))
