"""The sorted table of keys and values that variables.index is (LevelDB's format).

Source: https://github.com/google/leveldb/blob/main/doc/table_format.md and
tensorflow/core/lib/io/{format,block}.cc: data blocks, an index block that points at
them, a footer of 48 bytes that points at the index. TensorFlow writes it uncompressed.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from servable_tensors.tfrecord import crc32c, masked
from servable_tensors.wire import varint

_FOOTER_BYTES = 48
_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
# Behind each block: one byte that names its compression, four of CRC.
_TRAILER_BYTES = 5


class DamagedTableError(ValueError):
    """The bytes are no sorted table, or not all of one."""


def entries(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) in the order of the keys, block by block.

    Raises `DamagedTableError`, `WireError` for a number that does not end, OSError.
    """
    if size < _FOOTER_BYTES:
        raise DamagedTableError(f"{size} bytes; the footer alone has {_FOOTER_BYTES}")
    file.seek(size - _FOOTER_BYTES)
    footer = file.read(_FOOTER_BYTES)
    if footer[-8:] != _MAGIC:
        raise DamagedTableError("no footer at its end")
    _, _, after = _handle(footer, 0)
    offset, length, _ = _handle(footer, after)
    for _, handle in _block(file, size, offset, length):
        offset, length, _ = _handle(handle, 0)
        yield from _block(file, size, offset, length)


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    offset, at = varint(data, at, len(data))
    length, at = varint(data, at, len(data))
    return offset, length, at


def _block(file: BinaryIO, size: int, offset: int, length: int) -> Iterator[tuple[bytes, bytes]]:
    if length < 4 or offset + length + _TRAILER_BYTES > size:
        raise DamagedTableError(
            f"a block of {length} bytes at byte {offset} does not fit into the file"
        )
    file.seek(offset)
    whole = file.read(length + _TRAILER_BYTES)
    compression, crc = struct.unpack("<BI", whole[length:])
    if masked(crc32c(whole[: length + 1])) != crc:
        raise DamagedTableError(f"the CRC of the block at byte {offset} does not match")
    if compression:
        raise DamagedTableError(
            f"the block at byte {offset} is compressed; TensorFlow does not write that"
        )
    # At the end: restart points, which only searching needs, and how many they are.
    end = length - 4 * (struct.unpack("<I", whole[length - 4 : length])[0] + 1)
    key, at = b"", 0
    while at < end:
        shared, at = varint(whole, at, end)
        unshared, at = varint(whole, at, end)
        value_length, at = varint(whole, at, end)
        key = key[:shared] + whole[at : at + unshared]
        at += unshared
        yield key, whole[at : at + value_length]
        at += value_length
