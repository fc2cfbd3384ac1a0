"""A serialized PredictRequest, looked through before anything parses it.

An 18-byte tensor may claim 1.5e9 elements with one value for all: TensorFlow's own parser
then takes seconds and gigabytes. So shapes are held against what was really sent, on the
wire format itself and without building messages.
Source: https://protobuf.dev/programming-guides/encoding, tensorflow/core/framework/tensor.proto
"""

from dataclasses import dataclass, field

import numpy as np

from serving import wire
from serving.refusal import Refusal
from serving.seen_forms import SeenForms
from serving.tensors import STRING, element_bytes, value_field
from serving.wire_fields import BYTES, VARINT, BadWire, fields

MOST_TENSOR_BYTES = 64 << 20
MOST_DIMENSIONS = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h

_FIELDS = {field.number: field.name for field in wire.TensorProto.DESCRIPTOR.fields}
_SEEN: SeenForms[bool] = SeenForms()
_WIDTHS = {"float_val": 4, "scomplex_val": 4, "double_val": 8, "dcomplex_val": 8}


@dataclass
class Tensor:
    """What counts of a TensorProto."""

    dtype: int = 0
    sizes: list[int] = field(default_factory=list)
    content_bytes: int = 0
    content_at: tuple[int, int] | None = None
    values: dict[str, int] = field(default_factory=dict)
    packed_at: list[tuple[int, int]] = field(default_factory=list)
    """Of values of a fixed width, where each packed piece of them is."""
    unknown_rank: bool = False


def check_predict_request(body: bytes) -> bool:
    """Raises `Refusal` (400) for what must not be relayed. Returns whether it names a model."""
    known = _SEEN.get(body)
    if known is not None:
        return known
    named = False
    contents: list[tuple[int, int]] = []
    try:
        for number, kind, start, end in fields(body, 0, len(body)):
            if number == 1 and kind == BYTES:
                named = any(one[0] == 1 and one[3] > one[2] for one in fields(body, start, end))
            elif number == 2 and kind == BYTES:
                tensor = _checked_input(body, start, end)
                if tensor.content_at:
                    contents.append(tensor.content_at)
    except BadWire as bad:
        raise Refusal(400, f"the body is no PredictRequest: {bad}") from None
    _SEEN.keep(body, contents, named)
    return named


def _checked_input(body: bytes, start: int, end: int) -> Tensor:
    name, place = "", None
    for number, kind, first, last in fields(body, start, end):
        if number == 1 and kind == BYTES:
            name = body[first:last].decode(errors="replace")
        elif number == 2 and kind == BYTES:
            if place is not None:
                # A parser would merge the two: each harmless, a bomb together.
                raise Refusal(400, f"{name!r:.60}: the body holds the tensor in two pieces")
            place = first, last
    tensor = tensor_of(body, *place) if place else Tensor()
    if problem := _problem(tensor):
        raise Refusal(400, f"{name[:60]}: {problem}")
    return tensor


def _problem(tensor: Tensor) -> str | None:
    size = element_bytes(tensor.dtype)
    shape = f"[{', '.join(map(str, tensor.sizes[:8]))}{', …' if len(tensor.sizes) > 8 else ''}]"
    given = f"got {wire.dtype_name(tensor.dtype)} {shape}"
    if size is None:
        return f"{given}, a type that no request may carry"
    if tensor.unknown_rank or min(tensor.sizes, default=0) < 0:
        return f"{given}, whose shape is not fully known"
    if len(tensor.sizes) > MOST_DIMENSIONS:
        return f"{len(tensor.sizes)} dimensions; at most {MOST_DIMENSIONS} are allowed"
    count = 1
    for one in tensor.sizes:
        count *= one
        # Before the product is a number of thousands of digits.
        if one == 0 or count * size > MOST_TENSOR_BYTES:
            break
    if 0 in tensor.sizes:
        count = 0
    if count * size > MOST_TENSOR_BYTES:
        return f"{given}, more than {MOST_TENSOR_BYTES >> 20} MiB; send less in one request"
    if tensor.dtype != STRING and tensor.content_bytes:
        if tensor.content_bytes == count * size:
            return None
        return f"{given}, {count * size} bytes, with {tensor.content_bytes} bytes of content"
    values = tensor.values.get(value_field(tensor.dtype), 0)
    if value_field(tensor.dtype) in ("scomplex_val", "dcomplex_val"):
        values //= 2
    # One value stands for all: bounded above. Fewer than wanted, but more than one, does not.
    if values == count or values == 1 or count == 0:
        return None
    return f"{given}, {count} elements, with {values} values"


def tensor_of(body: bytes, start: int, end: int) -> Tensor:
    found = Tensor()
    for number, kind, first, last in fields(body, start, end):
        name = _FIELDS.get(number)
        if name is None:
            continue
        if name == "dtype" and kind == VARINT:
            found.dtype = first
        elif name == "tensor_shape" and kind == BYTES:
            _add_shape(body, first, last, found)
        elif name == "tensor_content" and kind == BYTES:
            found.content_bytes, found.content_at = last - first, (first, last)
        elif name.endswith("_val"):
            found.values[name] = found.values.get(name, 0) + _count(body, name, kind, first, last)
            # A single value outside of a packed piece stands in no piece: one too many.
            found.packed_at.append((first, last) if kind == BYTES and name in _WIDTHS else (0, 0))
    return found


def _add_shape(body: bytes, start: int, end: int, tensor: Tensor) -> None:
    for number, kind, first, last in fields(body, start, end):
        if number == 2 and kind == BYTES:
            size = 0
            for inner, inner_kind, value, _ in fields(body, first, last):
                if inner == 1 and inner_kind == VARINT:
                    size = value - (1 << 64) if value >= 1 << 63 else value
            tensor.sizes.append(size)
        elif number == 3 and kind == VARINT and first:
            tensor.unknown_rank = True


def _count(body: bytes, name: str, kind: int, start: int, end: int) -> int:
    """How many values one occurrence of a repeated field holds."""
    if kind != BYTES or name == "string_val":
        return 1
    if name in _WIDTHS:
        return (end - start) // _WIDTHS[name]
    # Packed varints: each ends with a byte below 128.
    return int(np.count_nonzero(np.frombuffer(body, np.uint8, end - start, start) < 0x80))
