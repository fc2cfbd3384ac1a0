"""Nested JSON lists as a shape and a flat list of values.

Source: https://github.com/tensorflow/serving (tensorflow_serving/util/json_tensor.cc)
"""

import json
from itertools import chain

from servable_local.container.answer import HttpError


def flatten(value: object) -> tuple[list[int], list[object]]:
    """The shape of lists nested evenly, and what they hold, in order. A lone value has no shape.

    Raises `HttpError` (400) at the first list that is longer, shorter or deeper than the others.
    """
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    level: list[object] = [value]
    for depth, size in enumerate(shape):
        for item in level:
            if not isinstance(item, list):
                raise HttpError(
                    400,
                    f"JSON Value: {shown(item)} found at incorrect level: {depth + 1} "
                    f"in the JSON DOM. Expected at level: {len(shape)}",
                )
            if len(item) != size:
                raise HttpError(
                    400,
                    f"Encountered list at unexpected size: {len(item)} at level: {depth} "
                    f"expected size: {size}",
                )
        level = list(chain.from_iterable(level))  # type: ignore[arg-type]
    if any(isinstance(leaf, list) for leaf in level):
        rank = len(shape)
        raise HttpError(400, f"Encountered list at unexpected level: {rank} expected < {rank}")
    return shape, level


def shown(value: object) -> str:
    """A JSON value for a message, cut at 200 characters."""
    return json.dumps(value)[:200]
