"""HTTP/2's frames over one plain socket.

Source: RFC 9113, section 4.1
"""

import struct

from serving.line import line_to

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY, ACKNOWLEDGED = 0x1, 0x4, 0x8, 0x20, 0x1
LARGEST = (1 << 31) - 1
"""Of a stream's number, and of a window in bytes."""
_HEAD = struct.Struct(">BHBBI")  # length in 24 bits, type, flags, stream
_FEW_BYTES, _MANY_BYTES = 1 << 14, 1 << 18
Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


class Frames:
    """Raises OSError, and what each method says besides; it is to be closed then."""

    def __init__(self, port: int, deadline: float) -> None:
        """Raises `Unreachable`, `TooLate`."""
        self._line = line_to(port, deadline)
        self._deadline = deadline
        self._got, self._at = b"", 0
        self.received_bytes = 0

    def close(self) -> None:
        self._line.close()

    def send(self, frames: bytes, deadline: float | None = None) -> None:
        """Until the deadline, else until that of the last call. Raises `TooLate`."""
        if deadline is not None:
            self._deadline = deadline
        self._line.send(frames, self._deadline)

    def ahead(self, deadline: float) -> bytes:
        """What has come and was not taken yet, one byte at least. Raises `Unreachable`, `TooLate`."""
        if self._at == len(self._got):
            self._got, self._at = self._line.receive(_FEW_BYTES, deadline), 0
            self.received_bytes += len(self._got)
        return self._got[self._at :]

    def take_all(self) -> None:
        """What is ahead was read in one go."""
        self._at = len(self._got)

    def next(self, deadline: float) -> Frame:
        """Raises `Unreachable`, `TooLate`."""
        if len(self._got) < self._at + 9:
            self._receive(9, deadline)
        high, low, kind, flags, stream = _HEAD.unpack_from(self._got, self._at)
        size = 9 + (high << 16 | low)
        if len(self._got) < self._at + size:
            self._receive(size, deadline)
        start, self._at = self._at + 9, self._at + size
        return kind, flags, stream & LARGEST, self._got[start : self._at]

    def _receive(self, count: int, deadline: float) -> None:
        """So many bytes at least, from where the next frame begins."""
        start = self._got[self._at :]
        pieces, missing = [start], count - len(start)
        while missing > 0:
            most_bytes = _FEW_BYTES if missing < _FEW_BYTES else _MANY_BYTES
            piece = self._line.receive(most_bytes, deadline)
            pieces.append(piece)
            missing -= len(piece)
            self.received_bytes += len(piece)
        self._got, self._at = b"".join(pieces), 0
