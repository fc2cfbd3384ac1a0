"""What is sent: golden requests, captured ones, any file, each as often as it is wanted."""

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.parameters.loading import Loaded
from model_packaging.refusal import PackagingError
from servable.load.load_target import Body

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


def bodies_of(
    files: Sequence[str], *, content_type: str | None, loaded: Loaded | None
) -> tuple[list[Body], list[str]]:
    """(bodies, what they are called). `files`: FILE, or FILE=WEIGHT. Raises BodyError, Refusal.

    Left out: the requests with which the environment's model is warmed up.
    """
    if not files:
        files = _warm_up(loaded)
    bodies: list[Body] = []
    names = []
    for one in files:
        file, weight = _weighed(one)
        found = read(file, content_type=content_type, weight=weight)
        bodies += found
        share = f", weight {weight:g}" if weight != 1 else ""
        names.append(f"{len(found)} of {file.name} ({found[0].content_type}{share})")
    return bodies, names


def _weighed(one: str) -> tuple[Path, float]:
    name, equals, weight = one.rpartition("=")
    if equals and not Path(one).exists():
        try:
            number = float(weight)
        except ValueError:
            raise BodyError(f"--body {one}: {weight!r} is no weight; write FILE=3") from None
        if not 0 < number < float("inf"):
            raise BodyError(f"--body {one}: a weight is a number above 0")
        return Path(name), number
    return Path(one), 1.0


def _warm_up(loaded: Loaded | None) -> list[str]:
    environment = loaded.environment if loaded else None
    if loaded is None or environment is None:
        raise BodyError("there is nothing to send; give --body FILE")
    first = next(iter(environment.variants.values()))
    found = environment.models[first.model].warm_up
    files = [str(loaded.root / one) for one in found or [] if Path(one).suffix == ".json"]
    if not files:
        problem = f"models.{first.model} has no warm_up requests to send"
        raise PackagingError(Path(loaded.file), problem, "give --body FILE, or write warm_up")
    return files


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
        return [dataclasses.replace(one, weight=weight / len(found)) for one in found]
    kind = content_type or CONTENT_TYPES.get(file.suffix)
    if kind is None:
        known = ", ".join(CONTENT_TYPES)
        raise BodyError(f"{file}: give --content-type, or a file that ends in {known}")
    if not content:
        raise BodyError(f"{file}: is empty; give a request that the model answers")
    return [Body(content=content, content_type=kind, weight=weight)]


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
