"""HTTP/2's frames over one plain socket.

Source: RFC 9113, section 4.1
"""

import struct

from servable_handler.transport.http2.hpack import UnexpectedAnswerError
from servable_handler.transport.http2.line import line_to

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


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


class Frames:
    """Reads and writes frames. Close it after an OSError, a `BrokenOffError` or a method's errors."""

    def __init__(self, port: int, deadline: float) -> None:
        """Connects to a port. Raises `NotTakenError`, `DeadlineError`."""
        self._line = line_to(port, deadline)
        self._got, self._at = b"", 0
        self.deadline = deadline
        """Deadline of the call under way, which also holds for frames sent meanwhile."""
        self.received_bytes = 0

    def close(self) -> None:
        self._line.close()

    def send(self, frames: bytes) -> None:
        """Sends frames. Raises `DeadlineError`."""
        self._line.send(frames, self.deadline)

    def ahead(self) -> bytes:
        """Received bytes that were not consumed yet, at least one. Raises `DeadlineError`."""
        if self._at == len(self._got):
            self._got, self._at = self._line.receive(_FEW_BYTES, self.deadline), 0
            self.received_bytes += len(self._got)
        return self._got[self._at :]

    def take_all(self) -> None:
        """Consumes all received bytes."""
        self._at = len(self._got)

    def has_next(self) -> bool:
        """Whether a whole frame was received. Raises `BrokenOffError` if the connection has ended."""
        if not self._is_whole():
            piece = self._line.received(_FEW_BYTES)
            if not piece:
                return False
            self._got, self._at = self._got[self._at :] + piece, 0
            self.received_bytes += len(piece)
        return self._is_whole()

    def _is_whole(self) -> bool:
        there = len(self._got) - self._at
        return there >= 9 and there >= 9 + int.from_bytes(self._got[self._at : self._at + 3], "big")

    def next(self) -> Frame:
        """Reads the next frame. Raises `DeadlineError`, `UnexpectedAnswerError`."""
        if len(self._got) < self._at + 9:
            self._receive(9)
        high, low, kind, flags, stream = _HEAD.unpack_from(self._got, self._at)
        size = high << 16 | low
        if size > MOST_BYTES_WITHOUT_DATA and kind != DATA:
            raise UnexpectedAnswerError(f"a frame of type {kind} with {size:,} bytes")
        start, end = self._at + 9, self._at + 9 + size
        if len(self._got) < end:
            self._receive(9 + size)
            start, end = 9, 9 + size
        self._at = end
        return kind, flags, stream & LARGEST, self._got[start:end]

    def _receive(self, count: int) -> None:
        """Receives until at least `count` bytes from the start of the next frame are there."""
        start = self._got[self._at :]
        pieces, missing = [start], count - len(start)
        while missing > 0:
            most_bytes = _FEW_BYTES if missing < _FEW_BYTES else _MANY_BYTES
            piece = self._line.receive(most_bytes, self.deadline)
            pieces.append(piece)
            missing -= len(piece)
            self.received_bytes += len(piece)
        self._got, self._at = b"".join(pieces), 0
