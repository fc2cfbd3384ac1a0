"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), which TFRecord and checkpoints hold; zlib's is another."""

import functools
import struct

# Bytes of a block, and the segments of it that are computed side by side.
_BLOCKS = ((1 << 20, 1 << 13), (1 << 16, 1 << 10))


def masked(crc: int) -> int:
    """A CRC as TFRecord and the variables index store it: rotated and offset.

    A CRC over data that contains CRCs would otherwise be weak.
    """
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Four bytes a step, about 15 MB/s; from 64 KiB on segments side by side, about 75 MB/s."""
    crc, start = 0xFFFFFFFF, 0
    for size, segments in _BLOCKS:
        while len(data) - start >= size:
            crc = _block(crc, data[start : start + size], segments)
            start += size
    first, second, third, fourth = _TABLES
    rest = memoryview(data)[start:]
    whole = len(rest) & ~3
    for (word,) in struct.iter_unpack("<I", rest[:whole]):
        crc ^= word
        crc = (
            fourth[crc & 0xFF]
            ^ third[crc >> 8 & 0xFF]
            ^ second[crc >> 16 & 0xFF]
            ^ first[crc >> 24]
        )
    for byte in rest[whole:]:
        crc = first[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _block(crc: int, block: bytes, segments: int) -> int:
    """The CRC's register after a block whose segments are computed side by side, byte by byte.

    A register of 32 bits for each segment is kept as four planes of bytes, so that the steps are those of
    bytes.translate and of large integers, which C computes.
    """
    length = len(block) // segments
    planes = [bytes((crc >> shift & 0xFF,)) + bytes(segments - 1) for shift in (0, 8, 16, 24)]
    for at in range(length):
        index = _xor(planes[0], block[at::length])
        planes = [_xor(planes[n + 1], index.translate(_PLANES[n])) for n in range(3)] + [
            index.translate(_PLANES[3])
        ]
    first, second, third, fourth = _shifted(length)
    registers = zip(*planes, strict=True)
    a, b, c, d = next(registers)
    crc = a | b << 8 | c << 16 | d << 24
    for a, b, c, d in registers:
        crc = (
            first[crc & 0xFF]
            ^ second[crc >> 8 & 0xFF]
            ^ third[crc >> 16 & 0xFF]
            ^ fourth[crc >> 24]
            ^ (a | b << 8 | c << 16 | d << 24)
        )
    return crc


def _xor(one: bytes, other: bytes) -> bytes:
    number = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return number.to_bytes(len(one), "little")


@functools.cache
def _shifted(length: int) -> list[list[int]]:
    """tables[n][b]: what byte n of the register with the value b becomes by `length` bytes of zeros."""
    tables = []
    for shift in (0, 8, 16, 24):
        bits = []
        for bit in range(8):
            crc = 1 << bit + shift
            for _ in range(length):
                crc = _TABLES[0][crc & 0xFF] ^ crc >> 8
            bits.append(crc)
        table = [0]
        for crc in bits:
            table += [crc ^ known for known in table]
        tables.append(table)
    return tables


def _tables() -> list[list[int]]:
    """tables[n][b]: what byte b does to the CRC when n more bytes follow it."""
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        first.append(crc)
    tables = [first]
    for _ in range(3):
        tables.append([first[crc & 0xFF] ^ crc >> 8 for crc in tables[-1]])
    return tables


_TABLES = _tables()
_PLANES = [bytes(crc >> shift & 0xFF for crc in _TABLES[0]) for shift in (0, 8, 16, 24)]
