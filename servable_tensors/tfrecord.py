"""TFRecord framing: length and CRC before each record, CRC behind it.

    uint64 length · uint32 masked CRC of the length · bytes · uint32 masked CRC of the bytes

Little-endian. Source: tensorflow/core/lib/io/record_writer.h and tensorflow/core/lib/hash/crc32c.h.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from servable_tensors.crc32c import crc32c, masked

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class RecordError(ValueError):
    """The bytes are not TFRecord; `str()` says which record and why."""


def frame(records: Iterable[bytes]) -> bytes:
    """The content of a TFRecord file."""
    parts: list[bytes] = []
    for record in records:
        length = _LENGTH.pack(len(record))
        parts += (length, _CRC.pack(masked(crc32c(length))))
        parts += (record, _CRC.pack(masked(crc32c(record))))
    return b"".join(parts)


def read(file: BinaryIO, *, max_record_bytes: int = 1 << 26) -> Iterator[bytes]:
    """The records of a TFRecord file, one after the other. Raises `RecordError`.

    A length is believed only up to `max_record_bytes` (64 MiB; SageMaker's largest
    request is 6 MiB), so that a damaged one does not ask for terabytes.
    """
    number = 0
    while header := file.read(12):
        if len(header) < 12:
            raise RecordError(f"record {number}: the file ends inside the length")
        if _CRC.unpack(header[8:])[0] != masked(crc32c(header[:8])):
            raise RecordError(f"record {number}: the length's CRC does not match")
        length = _LENGTH.unpack(header[:8])[0]
        if length > max_record_bytes:
            raise RecordError(
                f"record {number}: {length} bytes long; at most {max_record_bytes} are read"
            )
        body = file.read(length + 4)
        if len(body) < length + 4:
            raise RecordError(f"record {number}: the file ends inside the record")
        if _CRC.unpack(body[length:])[0] != masked(crc32c(body[:length])):
            raise RecordError(f"record {number}: the CRC does not match")
        yield body[:length]
        number += 1
