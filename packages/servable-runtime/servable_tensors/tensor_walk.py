"""Type, shape and positions of values in a serialized TensorProto, without building the message.

It is stricter than protobuf. It rejects a field that appears twice, that has another wire type than
its own, or that no tensor of numbers or strings has. Parsers merge the first, ignore the second,
and a writer produces none of them.
Source: tensorflow/core/framework/{tensor.proto,tensor_shape.proto}
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from servable_tensors import MOST_DIMENSIONS, wire
from servable_tensors.tensors import Array
from servable_tensors.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, iterate_fields

_MOST_LAYOUTS = 64
_MOST_BYTES = 1024  # of structure: beyond it is something else than numbers
Layout = TypeVar("Layout")
Range = tuple[int, int]


class LayoutCache(Generic[Layout]):
    """A cache of what was read from messages, by length, for messages of the same structure."""

    def __init__(self) -> None:
        self._by_length: dict[int, tuple[tuple[tuple[int, int, bytes], ...], Layout]] = {}

    def get(self, message: bytes) -> Layout | None:
        entry = self._by_length.get(len(message))
        if entry is None:
            return None
        for start, end, piece in entry[0]:
            if message[start:end] != piece:
                return None
        return entry[1]

    def keep(self, message: bytes, numbers: Sequence[Range], layout: Layout) -> None:
        """Cache the layout of a message, unless too much of the message is structure.

        `numbers`: the ranges of bytes on which `layout` does not depend, in order.
        """
        at, pieces = 0, []
        for start, end in (*numbers, (len(message), len(message))):
            pieces.append((at, start, message[at:start]))
            at = end
        if sum(end - start for start, end, _ in pieces) > _MOST_BYTES:
            return
        if len(self._by_length) >= _MOST_LAYOUTS:
            self._by_length.clear()
        self._by_length[len(message)] = tuple(pieces), layout


# Writers pack numbers into one piece: reading an unpacked one takes as long as a whole piece.
MOST_PIECES = 256
MOST_SINGLE_NUMBERS = 1 << 16

_FIELDS = {each.number: each.name for each in wire.TensorProto.DESCRIPTOR.fields}
_VALUE_FIELDS = {number: name for number, name in _FIELDS.items() if name.endswith("_val")}
_STRINGS = next(number for number, name in _FIELDS.items() if name == "string_val")
FIXED_WIDTHS = {"float_val": 4, "scomplex_val": 4, "double_val": 8, "dcomplex_val": 8}
_KINDS = {4: FIXED32, 8: FIXED64}
_VARINT_BYTES = 10
_CHUNK_BYTES = 1 << 17


@dataclass(slots=True)
class Tensor:
    """The type, shape and positions of values in a serialized TensorProto."""

    dtype: int = 0
    sizes: list[int] = field(default_factory=list)
    content_at: Range | None = None
    packed_at: dict[str, list[Range]] = field(default_factory=dict)
    """Positions of the packed pieces of values, by the name of the field."""
    single: dict[str, int] = field(default_factory=dict)
    """Number of values that stand on their own, by the name of the field."""
    least: int = 0
    greatest: int = 0
    """Among the varints that stand on their own, as signed 64 bits."""
    string_bytes: int = 0
    unknown_rank: bool = False

    @property
    def content_bytes(self) -> int:
        return self.content_at[1] - self.content_at[0] if self.content_at else 0


def read_tensor(body: bytes, start: int, end: int) -> Tensor:
    """Return the TensorProto between two positions. Raises `WireError`."""
    tensor, seen, strings = Tensor(), set(), 0
    for number, kind, first, last in iterate_fields(body, start, end):
        if number == _STRINGS and kind == BYTES:  # there may be hundreds of thousands
            strings += 1
            tensor.string_bytes += last - first
        elif number in _VALUE_FIELDS:
            _add_values(tensor, _VALUE_FIELDS[number], kind, first, last)
        elif number in seen or number not in _FIELDS:
            problem = "appears twice" if number in seen else "isn't allowed in a request"
            raise WireError(f"field {number} of the tensor {problem}")
        else:
            seen.add(number)
            _add_field(tensor, body, _FIELDS[number], kind, first, last)
    if strings:
        tensor.single["string_val"] = strings
    return tensor


def count_values(body: bytes, tensor: Tensor, name: str) -> tuple[int, int, int]:
    """Count the field's values; also return the least and greatest varint. Raises `WireError`."""
    count, least, greatest = tensor.single.get(name, 0), tensor.least, tensor.greatest
    for start, end in tensor.packed_at.get(name, ()):
        if width := FIXED_WIDTHS.get(name):
            if (end - start) % width:
                problem = f"{name} holds {end - start} bytes, which isn't a multiple of {width}"
                raise WireError(problem)
            count += (end - start) // width
        elif end > start:
            packed = count_packed_varints(body, start, end)
            count += packed[0]
            least, greatest = min(least, packed[1]), max(greatest, packed[2])
    return count, least, greatest


def count_packed_varints(body: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Return count, least, and greatest, as signed 64 bits, of varints. Raises `WireError`."""
    array = np.frombuffer(body, np.uint8, end - start, start)
    count, least, greatest, at = 0, 1 << 63, -(1 << 63), 0
    while at < len(array):
        # In pieces, because intermediate results for all bytes would fill the memory.
        chunk = array[at : at + _CHUNK_BYTES]
        ends = np.flatnonzero(chunk < 0x80)
        lengths = np.diff(ends, prepend=-1)
        if not len(ends) or lengths.max() > _VARINT_BYTES:
            raise WireError("a number does not end")
        at += int(ends[-1]) + 1
        values = _decode_varints(chunk[: ends[-1] + 1], ends, lengths)
        count += len(ends)
        least, greatest = min(least, int(values.min())), max(greatest, int(values.max()))
    return count, least, greatest


def _decode_varints(chunk: Array, ends: Array, lengths: Array) -> Array:
    if lengths.max() == 1:
        return chunk
    if np.any(chunk[ends[lengths == _VARINT_BYTES]] > 1):
        raise WireError("a varint has more than 64 bits")
    starts = ends - lengths + 1
    shifts = (np.arange(len(chunk)) - np.repeat(starts, lengths)).astype(np.uint64) * np.uint64(7)
    bits = (chunk & 0x7F).astype(np.uint64) << shifts
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)


def _add_field(tensor: Tensor, body: bytes, name: str, kind: int, first: int, last: int) -> None:
    if kind != (BYTES if name in ("tensor_shape", "tensor_content") else VARINT):
        raise _build_kind_error(name, kind)
    if name == "dtype":
        tensor.dtype = first
    elif name == "tensor_shape":
        tensor.sizes, tensor.unknown_rank = read_shape(body, first, last)
    elif name == "tensor_content":
        tensor.content_at = (first, last)


def _add_values(tensor: Tensor, name: str, kind: int, first: int, last: int) -> None:
    if kind == BYTES:
        pieces = tensor.packed_at.setdefault(name, [])
        pieces.append((first, last))
        if len(pieces) > MOST_PIECES:
            raise WireError(f"{name} of the tensor is split into more than {MOST_PIECES} pieces")
        return
    if kind != _KINDS.get(FIXED_WIDTHS.get(name, 0), VARINT) or name == "string_val":
        raise _build_kind_error(name, kind)
    tensor.single[name] = tensor.single.get(name, 0) + 1
    if tensor.single[name] > MOST_SINGLE_NUMBERS:
        problem = f"{name} has more than {MOST_SINGLE_NUMBERS} unpacked numbers"
        raise WireError(f"{problem}; use packed encoding")
    if kind == VARINT:
        value = _convert_to_signed(first)
        tensor.least, tensor.greatest = min(tensor.least, value), max(tensor.greatest, value)


def read_shape(body: bytes, start: int, end: int) -> tuple[list[int], bool]:
    """Return a TensorShapeProto's sizes, and whether its rank is unknown. Raises `WireError`."""
    sizes: list[int] = []
    unknown_rank = False
    for number, kind, first, last in iterate_fields(body, start, end):
        if number == 2 and kind == BYTES:
            if len(sizes) == MOST_DIMENSIONS:
                raise WireError(f"the tensor has more than {MOST_DIMENSIONS} dimensions")
            sizes.append(_read_size(body, first, last))
        elif number == 3 and kind == VARINT and not unknown_rank:
            unknown_rank = bool(first)
        else:
            raise WireError(f"field {number} of the shape is unknown, invalid, or repeated")
    return sizes, unknown_rank


def _read_size(body: bytes, start: int, end: int) -> int:
    fields = wire.read_single_fields(body, start, end, {1: VARINT, 2: BYTES}, "a dimension")
    read_text(body, *fields.get(2, (end, end)))
    return _convert_to_signed(fields.get(1, (0, 0))[0])


def read_text(body: bytes, start: int, end: int) -> str:
    """Return a field of the type string. Raises `WireError` unless it is UTF-8, as protobuf does."""
    try:
        return body[start:end].decode()
    except UnicodeDecodeError:
        raise WireError("a name isn't UTF-8") from None


def _convert_to_signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _build_kind_error(name: str, kind: int) -> WireError:
    return WireError(f"{name} of the tensor has the wire type {kind}, which isn't allowed")
