"""Walks a serialized protobuf message field by field, without building it in memory.

A saved_model.pb may hold constants of up to 2 GiB. Walking a memory map touches the
few pages with names and lengths and steps over the rest.
Source: https://protobuf.dev/programming-guides/encoding/
"""

import mmap
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Buffer = bytes | mmap.mmap


class DamagedMessageError(ValueError):
    """The bytes are no protobuf message, or not all of one."""


class Field(NamedTuple):
    """Where one field lies in the buffer; offsets in bytes."""

    number: int
    wire_type: int
    start: int
    """Where its tag begins."""
    value: int
    """Where what follows the tag, and the length if there is one, begins."""
    end: int


def fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in `data[start:end]`, in order. Raises `DamagedMessageError`."""
    while start < end:
        tag, value = varint(data, start, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == BYTES:
            length, value = varint(data, value, end)
            after = value + length
        elif wire_type == VARINT:
            after = varint(data, value, end)[1]
        elif wire_type in (FIXED64, FIXED32):
            after = value + (8 if wire_type == FIXED64 else 4)
        else:
            raise DamagedMessageError(f"wire type {wire_type} at byte {start}")
        if number == 0:
            raise DamagedMessageError(f"field number 0 at byte {start}")
        if after > end:
            raise DamagedMessageError(
                f"field {number} at byte {start} ends {after - end} bytes too late"
            )
        yield Field(number, wire_type, start, value, after)
        start = after


def varint(data: Buffer, start: int, end: int) -> tuple[int, int]:
    """(the number at `start`, the offset behind it). Raises `DamagedMessageError`."""
    number = shift = 0
    for at in range(start, min(start + 10, end)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
    raise DamagedMessageError(f"a number at byte {start} does not end")
