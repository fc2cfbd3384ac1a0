"""HTTP/2 as bytes: frames, header blocks in HPACK, and the answer of a gRPC server."""

import struct


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    )


def literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


OPENING = b"\x88\x0f\x10\x10application/grpc"
HEADERS = frame(1, 4, 1, OPENING)
DATA = frame(0, 0, 1, b"\0\0\0\0\x02ok")
STATUS = literal(b"grpc-status", b"0")
TRAILERS = frame(1, 5, 1, STATUS)
SETTINGS = frame(4, 0, 0, b"")


def hpack_number(first: int, bits: int, value: int) -> bytes:
    """HPACK's form of an integer, whose first byte has `first` above its bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    value, found = value - most, bytes([first | most])
    while value > 0x7F:
        value, found = value >> 7, found + bytes([value & 0x7F | 0x80])
    return found + bytes([value])


def whole(stream: int, *, message: bytes = b"ok", status: bytes = b"0") -> bytes:
    prefix = b"\0" + struct.pack(">I", len(message))
    return (
        (SETTINGS if stream == 1 else b"")
        + frame(1, 4, stream, OPENING)
        + frame(0, 0, stream, prefix + message)
        + frame(1, 5, stream, literal(b"grpc-status", status))
    )
