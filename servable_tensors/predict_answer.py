"""The outputs in a serialized PredictResponse as arrays, most without making a message of it.

Numbers of a fixed width stand in the message as arrays hold them, in tensor_content as in
float_val: they are looked at where they are. The rest is read through protobuf.
Source: https://protobuf.dev/programming-guides/encoding, tensorflow/core/framework/tensor.proto
"""

import math
from typing import Any, NamedTuple

import numpy as np

from servable_tensors import wire
from servable_tensors.seen_forms import SeenForms
from servable_tensors.tensor_walk import FIXED_WIDTHS, Tensor, tensor_of
from servable_tensors.tensors import (
    BFLOAT16,
    STRING,
    Array,
    array_dtype,
    element_bytes,
    to_array,
    value_field,
)
from servable_tensors.wire_fields import BYTES, WireError, fields


class Place(NamedTuple):
    """Where an output's numbers are."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    elements: int
    start: int


_SEEN: SeenForms[tuple[Place, ...]] = SeenForms()


def arrays_in(reply: bytes) -> dict[str, Array]:
    """By name, sorted; read-only where they share the reply's bytes.

    Raises `UnknownTypeError`, and protobuf's DecodeError.
    """
    places = _SEEN.get(reply) or places_in(reply)
    if places is None:
        response = wire.PredictResponse.FromString(reply)
        return {name: to_array(tensor) for name, tensor in sorted(response.outputs.items())}
    return {
        one.name: np.frombuffer(reply, one.dtype, one.elements, one.start).reshape(one.shape)
        for one in places
    }


def places_in(reply: bytes) -> tuple[Place, ...] | None:
    """By name, sorted; None where an output is not plainly there."""
    found: list[Place] = []
    try:
        for number, kind, start, end in fields(reply, 0, len(reply)):
            if number == 1 and kind == BYTES:
                place = _place(reply, start, end)
                if place is None:
                    return None
                found.append(place)
    except (WireError, UnicodeDecodeError):
        return None
    if len({one.name for one in found}) < len(found):
        return None  # of a name that comes twice the last counts
    numbers = [(one.start, one.start + one.elements * one.dtype.itemsize) for one in found]
    places = tuple(sorted(found, key=lambda one: one.name))
    _SEEN.keep(reply, numbers, places)
    return places


def _place(reply: bytes, start: int, end: int) -> Place | None:
    parts = list(fields(reply, start, end))
    if [part[:2] for part in parts] != [(1, BYTES), (2, BYTES)]:
        return None
    (_, _, *key), (_, _, *value) = parts
    tensor = tensor_of(reply, *value)
    size = element_bytes(tensor.dtype)
    if size is None or tensor.dtype in (STRING, BFLOAT16) or tensor.unknown_rank:
        return None
    if min(tensor.sizes, default=0) < 0 or not (at := _numbers_at(tensor)):
        return None
    count = math.prod(tensor.sizes)
    if at[1] - at[0] != count * size or not count:
        return None
    name = reply[slice(*key)].decode()
    return Place(name, array_dtype(tensor.dtype), tuple(tensor.sizes), count, at[0])


def _numbers_at(tensor: Tensor) -> tuple[int, int] | None:
    if tensor.single:
        return None
    if tensor.content_at:
        return None if tensor.packed_at else tensor.content_at
    # A list of values of a fixed width that is in one piece.
    field = value_field(tensor.dtype)
    pieces = tensor.packed_at.get(field, [])
    alone = len(pieces) == 1 == len(tensor.packed_at)
    return pieces[0] if alone and field in FIXED_WIDTHS else None
