"""HTTP/2's frames over one socket that waits for responses, and the headers of one gRPC call.

A header block is rejected with `UnexpectedAnswerError` unless it has the plain form that gRPC's
own server sends to a client without a table of headers. Other legal forms (Huffman codes, binary
headers, other statuses) are left to grpcio.
Source: RFC 9113, sections 4.1 and 8.2; RFC 7541 (HPACK)
"""

import functools
import re
import struct
from collections.abc import Iterator, Mapping

from servable_handler.transport.rest import BrokenOffError, compute_seconds_left, open_connection

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACKNOWLEDGED = 0x1, 0x4, 0x1
LARGEST = (1 << 31) - 1
"""Maximum of a stream's number, and of a window in bytes."""
MOST_BYTES_WITHOUT_DATA = 1 << 16
"""Maximum payload of a frame without data, and of all frames of one header block together."""
_HEAD = struct.Struct(">BHBBI")  # length in 24 bits, type, flags, stream
_FEW_BYTES, _MANY_BYTES = 1 << 14, 1 << 18
Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""


class UnexpectedAnswerError(Exception):
    """The error of a model server's response that this client does not support."""


def build_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


class Frames:
    """A reader and writer of frames. Close it after an OSError, a `BrokenOffError` or a method's errors."""

    def __init__(self, port: int, deadline: float) -> None:
        """Connect to a port. Raises `NotTakenError`, `DeadlineError`."""
        self._socket = open_connection(port, deadline)
        self._got, self._at = b"", 0
        self.deadline = deadline
        """Deadline of the call under way, which also holds for frames sent meanwhile."""
        self.received_bytes = 0

    def close(self) -> None:
        self._socket.close()

    def send(self, frames: bytes) -> None:
        """Send frames. Raises `DeadlineError`."""
        self._socket.settimeout(compute_seconds_left(self.deadline))
        self._socket.sendall(frames)

    def has_next(self) -> bool:
        """Return whether a whole frame was received. Raises `BrokenOffError` if the connection ended."""
        if not self._has_whole_frame():
            try:
                piece = self._receive_piece(_FEW_BYTES, 0)
            except BlockingIOError:
                return False
            self._got, self._at = self._got[self._at :] + piece, 0
        return self._has_whole_frame()

    def _has_whole_frame(self) -> bool:
        there = len(self._got) - self._at
        return there >= 9 and there >= 9 + int.from_bytes(self._got[self._at : self._at + 3], "big")

    def read_next(self) -> Frame:
        """Read the next frame. Raises `DeadlineError`, `UnexpectedAnswerError`."""
        if len(self._got) < self._at + 9:
            self._receive(9)
        high, low, kind, flags, stream = _HEAD.unpack_from(self._got, self._at)
        size = high << 16 | low
        if size > MOST_BYTES_WITHOUT_DATA and kind != DATA:
            raise UnexpectedAnswerError(
                f"a frame of type {kind} has {size:,} bytes, which is too large"
            )
        start, end = self._at + 9, self._at + 9 + size
        if len(self._got) < end:
            self._receive(9 + size)
            start, end = 9, 9 + size
        self._at = end
        return kind, flags, stream & LARGEST, self._got[start:end]

    def _receive(self, count: int) -> None:
        """Receive until at least `count` bytes from the start of the next frame are there."""
        start = self._got[self._at :]
        pieces, missing = [start], count - len(start)
        while missing > 0:
            most_bytes = _FEW_BYTES if missing < _FEW_BYTES else _MANY_BYTES
            pieces.append(self._receive_piece(most_bytes, compute_seconds_left(self.deadline)))
            missing -= len(pieces[-1])
        self._got, self._at = b"".join(pieces), 0

    def _receive_piece(self, most_bytes: int, seconds: float) -> bytes:
        self._socket.settimeout(seconds)
        piece = self._socket.recv(most_bytes)
        if not piece:
            raise BrokenOffError("the connection was closed")
        self.received_bytes += len(piece)
        return piece


# Maximum size of header blocks that are cached; larger ones contain an error's message.
_MOST_KEPT_BYTES = 256
_EMPTY_TABLE = 0x20
_STATUS_200 = 0x88
# Names in the static table that a gRPC server may use.
_NAMES = {
    **dict.fromkeys(range(8, 15), b":status"),
    31: b"content-type",
    33: b"date",
    54: b"server",
}
# gRPC's server writes :status out if it ends a call by itself, for example at its deadline.
_NAME = re.compile(rb":status|[a-z0-9_.-]+")
_VALUE = re.compile(rb"(?:[!-~](?:[ -~]*[!-~])?)?")
# Headers with a meaning for connections or gRPC's library that is not implemented here.
_NOT_TAKEN = re.compile(
    rb".*-bin|grpc-(?!(status|message|encoding|accept-encoding)$).*|te|host|content-length"
    rb"|connection|keep-alive|proxy-connection|transfer-encoding|upgrade"
)


def encode_headers(authority: bytes, path: str, seconds: float) -> bytes:
    """Return the encoded headers of a gRPC call with a timeout of `seconds`."""
    timeout = b"%dm" % max(1, min(seconds, 99_999) * 1000)
    return _encode_prefix(authority, path) + bytes((len(timeout),)) + timeout


@functools.lru_cache(maxsize=256)
def _encode_prefix(authority: bytes, path: str) -> bytes:
    # Literals without indexing; the numbers are names in HPACK's static table.
    written = path.encode()
    return (
        b"\x83\x86\x04" + bytes((len(written),)) + written  # :method POST, :scheme http, :path
        + b"\x01" + bytes((len(authority),)) + authority
        + b"\x0f\x10\x10application/grpc"  # content-type
        + b"\x00\x02te\x08trailers"
        + b"\x00\x0cgrpc-timeout"
    )  # fmt: skip


def read_headers(block: bytes) -> Mapping[bytes, bytes]:
    """Return the headers by name. Raises `UnexpectedAnswerError`."""
    return _kept(block) if len(block) <= _MOST_KEPT_BYTES else _read_headers(block)


def _read_headers(block: bytes) -> Mapping[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in _iterate_fields(block):
        if name in headers or _NOT_TAKEN.fullmatch(name):
            raise UnexpectedAnswerError(f"the header {name!r:.60} is repeated or not allowed")
        if name == b":status" and (headers or value != b"200"):
            raise UnexpectedAnswerError(
                f"the HTTP status is {value!r:.60}, or isn't the first header"
            )
        headers[name] = value
    return headers


# Without a table of headers equal bytes have equal meaning, so results are cached.
_kept = functools.lru_cache(maxsize=64)(_read_headers)


def _iterate_fields(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 1 if block.startswith(bytes((_EMPTY_TABLE,))) else 0
    try:
        while at < len(block):
            first = block[at]
            if first == _STATUS_200:
                yield b":status", b"200"
                at += 1
                continue
            if first & 0x80 or first & 0xE0 == 0x20:
                raise UnexpectedAnswerError("the headers use the dynamic table, or change its size")
            # The table of headers has no room: with and without indexing are the same.
            index, at = _read_number(block, at, 6 if first & 0x40 else 4)
            if index == 0:
                name, at = _read_text(block, at, _NAME)
            elif index in _NAMES:
                name = _NAMES[index]
            else:
                raise UnexpectedAnswerError(f"a header has the unknown table index {index}")
            value, at = _read_text(block, at, _VALUE)
            yield name, value
    except IndexError:
        raise UnexpectedAnswerError("the headers are truncated") from None


def _read_number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Read a number of at most 22 bits, more than any length in a block or index in a table."""
    most = (1 << bits) - 1
    value, at = block[at] & most, at + 1
    if value < most:
        return value, at
    for shift in (0, 7, 14):
        byte = block[at]
        value, at = value + ((byte & 0x7F) << shift), at + 1
        if byte == 0 and shift:
            break  # longer than needed
        if byte < 0x80:
            return value, at
    raise UnexpectedAnswerError("a number in the headers is too long")


def _read_text(block: bytes, at: int, form: re.Pattern[bytes]) -> tuple[bytes, int]:
    if block[at] & 0x80:
        raise UnexpectedAnswerError("a header uses Huffman coding")
    length, at = _read_number(block, at, 7)
    text = block[at : at + length]
    if len(text) < length or not form.fullmatch(text):
        raise UnexpectedAnswerError("a header is truncated or has invalid characters")
    return text, at + length
