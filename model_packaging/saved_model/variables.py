"""Read variables/: the index and its data files.

The index is a sorted table of keys and values (LevelDB's format), which TensorFlow writes uncompressed: data
blocks, an index block that points at them, and a footer of 48 bytes that points at the index.
Source: https://github.com/google/leveldb/blob/main/doc/table_format.md and
tensorflow/core/lib/io/{format,block}.cc
"""

import functools
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from google.protobuf.message import DecodeError

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import reject_pointer
from model_packaging.saved_model.initialization import RestoredVariable
from servable_tensors import is_shape_allowed, wire
from servable_tensors.tfrecord import compute_crc32c, mask_crc
from servable_tensors.wire import WireError, read_varint

_FOOTER_BYTES = 48
_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
# Behind each block: one byte that names its compression, four of CRC.
_TRAILER_BYTES = 5


class DamagedTableError(ValueError):
    """Bytes that aren't a sorted table, or not a complete one."""


def read_entries(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) in the order of the keys, block by block.

    Raises `DamagedTableError`, `WireError` for a number that does not end, OSError.
    """
    if size < _FOOTER_BYTES:
        raise DamagedTableError(f"{size} bytes; the footer alone has {_FOOTER_BYTES}")
    file.seek(size - _FOOTER_BYTES)
    footer = file.read(_FOOTER_BYTES)
    if footer[-8:] != _MAGIC:
        raise DamagedTableError("no footer at its end")
    _, _, after = _parse_handle(footer, 0)
    offset, length, _ = _parse_handle(footer, after)
    for _, handle in _read_block(file, size, offset, length):
        offset, length, _ = _parse_handle(handle, 0)
        yield from _read_block(file, size, offset, length)


def _parse_handle(data: bytes, at: int) -> tuple[int, int, int]:
    offset, at = read_varint(data, at, len(data))
    length, at = read_varint(data, at, len(data))
    return offset, length, at


def _read_block(
    file: BinaryIO, size: int, offset: int, length: int
) -> Iterator[tuple[bytes, bytes]]:
    if length < 4 or offset + length + _TRAILER_BYTES > size:
        problem = f"a block of {length} bytes at byte {offset} does not fit into the file"
        raise DamagedTableError(problem)
    file.seek(offset)
    whole = file.read(length + _TRAILER_BYTES)
    compression, crc = struct.unpack("<BI", whole[length:])
    if mask_crc(compute_crc32c(whole[: length + 1])) != crc:
        raise DamagedTableError(f"the CRC of the block at byte {offset} does not match")
    if compression:
        problem = f"the block at byte {offset} is compressed; TensorFlow does not write that"
        raise DamagedTableError(problem)
    # At the end: restart points, which only searching needs, and how many they are.
    end = length - 4 * (struct.unpack("<I", whole[length - 4 : length])[0] + 1)
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(whole, at, end)
        unshared, at = read_varint(whole, at, end)
        value_length, at = read_varint(whole, at, end)
        key = key[:shared] + whole[at : at + unshared]
        at += unshared
        yield key, whole[at : at + value_length]
        at += value_length


# More bytes of variables aren't compared with their checksums: these take half a second, at 15 MB/s.
MOST_CHECKED_BYTES = 8 << 20
_AGAIN = "export the SavedModel again, or copy it again"


@dataclass(frozen=True, kw_only=True)
class StoredVariable:
    """One tensor of a checkpoint."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    size: int
    """Bytes; 0 also for a partitioned variable, whose parts have keys of their own."""
    crc: int
    """Masked CRC-32C of its bytes; for strings, of more than the bytes."""

    @property
    def is_intact(self) -> bool:
        """Return whether the bytes match their CRC; strings aren't checked. Raises OSError."""
        if self.dtype == "string" or not self.size:
            return True
        changed_ns = self.file.stat().st_mtime_ns
        return _compute_masked_crc(self.file, self.offset, self.size, changed_ns) == self.crc


@functools.lru_cache(maxsize=1 << 14)
def _compute_masked_crc(file: Path, offset: int, size: int, changed_ns: int) -> int:
    """Return the masked CRC-32C of a part of a file, which is read once until the file changes."""
    with file.open("rb") as opened:
        opened.seek(offset)
        return mask_crc(compute_crc32c(opened.read(size)))


def read_stored_variables(version: Path) -> dict[str, StoredVariable]:
    """Return the tensors of variables/ by key; empty if there are none. Raises `PackagingError`, OSError."""
    index = version / "variables" / "variables.index"
    if not index.is_file():
        return {}
    stored, _ = _read_index(index)
    return stored


def compute_variable_bytes(version: Path, *, needed: bool) -> int:
    """Return the size of the data files in bytes; 0 if there are no variables.

    Raises `PackagingError`, OSError. `needed`: the graph has variables. TensorFlow silently loads such a
    model without an index, and every prediction then fails.
    """
    index = version / "variables" / "variables.index"
    if not index.is_file():
        if needed:
            raise PackagingError(index, "does not exist, but the graph has variables", _AGAIN)
        return 0
    reject_pointer(index)
    total = 0
    stored, shards = _read_index(index)
    ends = dict.fromkeys(shards, 0)
    for variable in stored.values():
        ends[variable.file] = max(ends[variable.file], variable.offset + variable.size)
    for shard, least in ends.items():
        if not shard.is_file():
            raise PackagingError(shard, f"does not exist, but {index.name} refers to it", _AGAIN)
        reject_pointer(shard)
        size = shard.stat().st_size
        if size < least:
            problem = f"is truncated: {size:,} bytes, but {index.name} refers to {least:,}"
            raise PackagingError(shard, problem, _AGAIN)
        total += size
    return total


def _read_index(index: Path) -> tuple[dict[str, StoredVariable], list[Path]]:
    """Return the tensors of an index, and the data files that it counts."""
    stored = {}
    try:
        with index.open("rb") as opened:
            table = read_entries(opened, index.stat().st_size)
            key, value = next(table, (b"-", b""))
            if key:
                raise DamagedTableError("it does not begin with a header")
            count = wire.BundleHeaderProto.FromString(value).num_shards
            if not 1 <= count <= 99_999:
                raise DamagedTableError(f"it lists {count} data files")
            names = (f"variables.data-{number:05d}-of-{count:05d}" for number in range(count))
            shards = list(map(index.with_name, names))
            for key, value in table:
                entry = wire.BundleEntryProto.FromString(value)
                if not 0 <= entry.shard_id < count:
                    raise DamagedTableError(f"{key!r} is in data file {entry.shard_id} of {count}")
                # Keys of the parts of partitioned variables aren't text.
                stored[key.decode("utf-8", "backslashreplace")] = StoredVariable(
                    dtype=wire.find_dtype_name(entry.dtype),
                    shape=tuple(dim.size for dim in entry.shape.dim),
                    file=shards[entry.shard_id],
                    offset=entry.offset,
                    size=entry.size,
                    crc=entry.crc32c,
                )
    except (DamagedTableError, WireError, DecodeError) as damage:
        raise PackagingError(index, f"is truncated or damaged ({damage})", _AGAIN) from None
    return stored, shards


def find_variable_faults(
    restored: Iterable[RestoredVariable], stored: Mapping[str, StoredVariable], *, size: int
) -> Iterator[str]:
    """Yield what the graph restores and the checkpoint lacks, stores differently, or stores damaged.

    `size`: bytes of the data files. Above `MOST_CHECKED_BYTES`, checksums aren't compared. Raises OSError.
    """
    for variable in restored:
        there = stored.get(variable.key)
        if there is None:
            yield f"variables.index has no {variable.key!r}, which the graph restores"
        elif there.dtype != variable.dtype:
            yield f"{variable.key!r} is {there.dtype}, but the graph restores {variable.dtype}"
        elif not is_shape_allowed(there.shape, variable.shape):
            assert variable.shape is not None  # None allows any shape
            shape = [size or "?" for size in variable.shape]
            yield f"{variable.key!r} has the shape {list(there.shape)}, but the graph's is {shape}"
    for key, kept in stored.items() if size <= MOST_CHECKED_BYTES else ():
        if not kept.is_intact:
            yield f"{kept.file.name}: the checksum of {key!r} does not match its bytes"
