"""HTTP/2's frames over one socket that waits for responses, each until a deadline.

Source: RFC 9113, section 4.1
"""

import struct

from servable_handler.transport.http2.hpack import UnexpectedAnswerError
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
