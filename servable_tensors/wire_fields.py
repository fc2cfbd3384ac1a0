"""The fields of a serialized protobuf message, found without parsing it.

Parsers differ over what no writer writes: C++ cuts a tag to 32 bits, upb refuses it, and a
walker that kept it would see another message than the parser. So whatever protobuf's own
writers never produce is refused here: tags that are longer than they need to be, groups,
lengths of more than five bytes, integers of more than 64 bits.
Source: https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Numbers = npt.NDArray[Any]
Field = tuple[int, int, int, int]
"""Number, wire type, and from where to where its bytes are; of a varint, its value and 0."""

_TAG_BYTES, _LENGTH_BYTES, _VARINT_BYTES = 5, 5, 10  # parse_context.h, ReadTag and ReadSize
_CHUNK_BYTES = 1 << 17


class WireError(ValueError):
    """The bytes are no protobuf message; `str()` says why."""


def fields(body: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields between two places, without looking into them. Raises `WireError`."""
    while at < end:
        # Most tags and lengths are one byte: a call for each is most of the time.
        tag, at = (body[at], at + 1) if body[at] < 0x80 else _tag(body, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError("a field has the number 0")
        if kind == VARINT:
            value, at = _varint(body, at, end)
            yield number, kind, value, 0
            continue
        if kind == BYTES:
            if at < end and body[at] < 0x80:
                length, at = body[at], at + 1
            else:
                length, at = _varint(body, at, end, _LENGTH_BYTES)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"field {number} has the wire type {kind}")
        if length > end - at:
            raise WireError(f"field {number} is {length} bytes long; {end - at} are left")
        yield number, kind, at, at + length
        at += length


def packed_varints(body: bytes, start: int, end: int) -> tuple[int, int, int]:
    """How many varints stand between two places, the least and the greatest, as signed 64 bits.

    Raises `WireError` for bytes that are no varints.
    """
    found = np.frombuffer(body, np.uint8, end - start, start)
    count, least, greatest, at = 0, 1 << 63, -(1 << 63), 0
    while at < len(found):
        # In pieces: what is worked out for each byte would fill the memory for all of them.
        chunk = found[at : at + _CHUNK_BYTES]
        ends = np.flatnonzero(chunk < 0x80)
        lengths = np.diff(ends, prepend=-1)
        if not len(ends) or lengths.max() > _VARINT_BYTES:
            raise WireError("a number does not end")
        at += int(ends[-1]) + 1
        values = _decoded(chunk[: ends[-1] + 1], ends, lengths)
        count += len(ends)
        least, greatest = min(least, int(values.min())), max(greatest, int(values.max()))
    return count, least, greatest


def _decoded(chunk: Numbers, ends: Numbers, lengths: Numbers) -> Numbers:
    if lengths.max() == 1:
        return chunk
    if np.any(chunk[ends[lengths == _VARINT_BYTES]] > 1):
        raise WireError("a number has more than 64 bits")
    starts = ends - lengths + 1
    shifts = (np.arange(len(chunk)) - np.repeat(starts, lengths)).astype(np.uint64) * np.uint64(7)
    bits = (chunk & 0x7F).astype(np.uint64) << shifts
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)


def _tag(body: bytes, at: int, end: int) -> tuple[int, int]:
    tag, behind = _varint(body, at, end, _TAG_BYTES)
    if tag >> 32 or body[behind - 1] == 0:
        raise WireError(f"a field begins with {body[at:behind].hex()}, which is no tag")
    return tag, behind


def _varint(body: bytes, at: int, end: int, most_bytes: int = _VARINT_BYTES) -> tuple[int, int]:
    value = shift = 0
    last = min(end, at + most_bytes)
    while at < last:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise WireError("a number has more than 64 bits")
            return value, at
        shift += 7
    raise WireError("a number does not end")
