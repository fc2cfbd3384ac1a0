"""The fields of a serialized protobuf message, found without parsing it.

Source: https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Field = tuple[int, int, int, int]
"""Number, wire type, and from where to where its bytes are; of a varint, its value and 0."""


class BadWire(ValueError):
    """The bytes are no protobuf message; `str()` says why."""


def fields(body: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields between two places, without looking into them. Raises `BadWire`."""
    while at < end:
        # Most tags and lengths are one byte: a call for each is most of the time.
        tag, at = (body[at], at + 1) if body[at] < 0x80 else _varint(body, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise BadWire("a field has the number 0")
        if kind == VARINT:
            value, at = _varint(body, at, end)
            yield number, kind, value, 0
            continue
        if kind == BYTES:
            if at < end and body[at] < 0x80:
                length, at = body[at], at + 1
            else:
                length, at = _varint(body, at, end)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise BadWire(f"field {number} has the wire type {kind}")
        if length > end - at:
            raise BadWire(f"field {number} is {length} bytes long; {end - at} are left")
        yield number, kind, at, at + length
        at += length


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise BadWire("a number does not end")
