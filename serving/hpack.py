"""The headers of one gRPC call in HTTP/2's encoding: as much of it as needs no table.

Source: RFC 7541 (HPACK)
"""

import functools
from collections.abc import Iterator, Mapping

# Kept, of what comes again and again. Beyond this it is an error's own words.
_MOST_KEPT_BYTES = 256


class Unexpected(Exception):
    """Something that we do not understand; grpcio will."""


def request_headers(authority: bytes, path: str, seconds: float) -> bytes:
    """Of a gRPC call that may take so long."""
    timeout = b"%dm" % max(1, min(seconds, 99_999) * 1000)
    return _before_the_timeout(authority, path) + bytes((len(timeout),)) + timeout


@functools.lru_cache(maxsize=256)
def _before_the_timeout(authority: bytes, path: str) -> bytes:
    # Literals without indexing; the numbers are names in HPACK's static table.
    written = path.encode()
    return (
        b"\x83\x86\x04" + bytes((len(written),)) + written  # :method POST, :scheme http, :path
        + b"\x01" + bytes((len(authority),)) + authority
        + b"\x0f\x10\x10application/grpc"  # content-type
        + b"\x00\x02te\x08trailers"
        + b"\x00\x0cgrpc-timeout"
    )  # fmt: skip


def read(block: bytes) -> Mapping[bytes, bytes]:
    """The fields that are written out, by name. Raises `Unexpected` as `fields` does."""
    return _kept(block) if len(block) <= _MOST_KEPT_BYTES else dict(fields(block))


@functools.lru_cache(maxsize=64)
def _kept(block: bytes) -> Mapping[bytes, bytes]:
    # Without a table of headers the same bytes mean the same.
    return dict(fields(block))


def fields(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The fields that are written out. Raises `Unexpected` for a status that is not 200."""
    at = 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 7)
                # 8 is ":status 200"; 9 to 14 are other statuses; a table of ours there is none.
                if index > 61 or 8 < index < 15:
                    raise Unexpected("another status, or a header of no table")
            elif first & 0xE0 == 0x20:
                _, at = _number(block, at, 5)
            else:
                index, at = _number(block, at, 6 if first & 0x40 else 4)
                name = b""
                if index == 0:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                if name:
                    yield name, value
    except IndexError:
        raise Unexpected("headers that end too soon") from None


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value, at, shift = block[at] & most, at + 1, 0
    while value >= most:
        byte = block[at]
        value, at, shift = value + ((byte & 0x7F) << shift), at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """b"" for one in Huffman's code, which gRPC does not use for its own headers."""
    coded = block[at] & 0x80
    length, at = _number(block, at, 7)
    return b"" if coded else block[at : at + length], at + length
