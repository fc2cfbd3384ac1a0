"""What is sent: golden requests, captured ones, any file, each as often as it is wanted."""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".pb": "application/x-protobuf",
    ".npy": "application/x-npy",
    ".npz": "application/x-npz",
}
# A line of data capture has this key.
# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
_CAPTURED = b'"captureData"'


class BodyError(Exception):
    """A file that holds no body. `str()` is a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class Body:
    content: bytes
    content_type: str
    weight: float = 1.0
    """How often, beside the others."""
    custom_attributes: str | None = None


def read(file: Path, *, content_type: str | None = None, weight: float = 1.0) -> list[Body]:
    """The bodies of one file, `weight` in all. Raises `BodyError`.

    A file of SageMaker's data capture has one in each line; any other is one body.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BodyError(f"{file}: cannot be read: {error.strerror}") from None
    if content_type is None and _CAPTURED in content[:65536]:
        found = list(_captured(file, content))
        return [_weighed(one, weight / len(found)) for one in found]
    kind = content_type or CONTENT_TYPES.get(file.suffix)
    if kind is None:
        known = ", ".join(CONTENT_TYPES)
        raise BodyError(f"{file}: give --content-type, or a file that ends in {known}")
    if not content:
        raise BodyError(f"{file}: is empty; give a request that the model answers")
    return [Body(content=content, content_type=kind, weight=weight)]


def _weighed(body: Body, weight: float) -> Body:
    return Body(
        content=body.content,
        content_type=body.content_type,
        weight=weight,
        custom_attributes=body.custom_attributes,
    )


def _captured(file: Path, content: bytes) -> Iterator[Body]:
    found = False
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            # Where only answers are captured there is no input.
            asked = record["captureData"].get("endpointInput")
            if asked is None:
                continue
            body, kind = _decoded(asked), asked["observedContentType"]
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise BodyError(
                f"{file}, line {number}: is no record of data capture: {error!r}"
            ) from None
        found = True
        attributes = record.get("eventMetadata", {}).get("customAttributes")
        yield Body(
            content=body,
            content_type=kind,
            custom_attributes=",".join(attributes) if isinstance(attributes, list) else None,
        )
    if not found:
        raise BodyError(f"{file}: has no captured input; capture Input, not only Output")


def _decoded(asked: dict[str, Any]) -> bytes:
    data: str = asked["data"]
    return base64.b64decode(data, validate=True) if asked["encoding"] == "BASE64" else data.encode()
