"""HTTP/2's frames over one plain socket that waits for responses, each until a deadline.

Under gevent a socket's recv() tries to read before it waits, and creates a timer for each wait,
which is a fifth of the cost of a call. `_OnHub` waits on gevent's hub first, and has one timer.
Sources: RFC 9113, section 4.1; https://www.gevent.org/api/gevent.hub.html (Hub.wait, Hub.loop)
"""

import math
import socket
import struct
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

from servable_handler.transport.http2.hpack import UnexpectedAnswerError
from servable_handler.transport.rest import BrokenOffError, compute_seconds_left, open_connection


def open_socket(port: int, deadline: float) -> "DeadlineSocket":
    """Connect to a port. Raises `DeadlineError`, `NotTakenError`."""
    connection = open_connection(port, deadline)
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        return DeadlineSocket(connection)
    plain = monkey.get_original("socket", "socket")
    return _OnHub(plain(socket.AF_INET, socket.SOCK_STREAM, fileno=connection.detach()))


class DeadlineSocket:
    """A socket with deadlines. Methods raise OSError and `BrokenOffError`; close it then."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes, deadline: float) -> None:
        """Send all data. Raises `DeadlineError`."""
        self._socket.settimeout(compute_seconds_left(deadline))
        self._socket.sendall(data)

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        """Receive at least one byte. Raises `DeadlineError`."""
        self._socket.settimeout(compute_seconds_left(deadline))
        return _read(self._socket, most_bytes)

    def receive_available(self, most_bytes: int) -> bytes:
        """Return the bytes that have arrived already; b"" if there are none."""
        self._socket.settimeout(0)
        try:
            return _read(self._socket, most_bytes)
        except BlockingIOError:
            return b""


class _OnHub(DeadlineSocket):
    """A non-blocking socket that gevent did not patch; it waits on gevent's hub."""

    def __init__(self, connection: socket.socket) -> None:
        import gevent

        super().__init__(connection)
        connection.setblocking(False)
        self._hub = hub = gevent.get_hub()
        self._readable = hub.loop.io(connection.fileno(), 1)
        self._alarm = _ALARMS.setdefault(hub, _Alarm(hub))

    def close(self) -> None:
        self._readable.close()  # before another file gets its number
        super().close()

    def break_off(self) -> None:
        """Shut the connection down, so that a waiting call ends and no other call uses it."""
        with suppress(OSError):  # the other side may have broken it off
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while True:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                pass
            if not rest:
                return
            writable = self._hub.loop.io(self._socket.fileno(), 2)
            try:
                self._wait(writable, deadline)
            finally:
                writable.close()
            compute_seconds_left(deadline)

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        while True:
            self._wait(self._readable, deadline)
            try:
                return _read(self._socket, most_bytes)
            except BlockingIOError:
                continue  # a spurious wake-up of the hub
            except BrokenOffError:
                compute_seconds_left(deadline)
                raise

    def receive_available(self, most_bytes: int) -> bytes:
        try:
            return _read(self._socket, most_bytes)
        except BlockingIOError:
            return b""

    def _wait(self, watcher: Any, deadline: float) -> None:
        alarm = self._alarm
        alarm.waiting[self] = deadline
        if deadline < alarm.rings_at:
            alarm.start_timer(deadline)
        try:
            self._hub.wait(watcher)
        finally:
            del alarm.waiting[self]


def _read(connection: socket.socket, most_bytes: int) -> bytes:
    piece = connection.recv(most_bytes)
    if not piece:
        raise BrokenOffError("the connection was closed")
    return piece


class _Alarm:
    """A timer that ends every wait beyond its deadline, so that requests need no timers."""

    def __init__(self, hub: Any) -> None:
        self._loop = hub.loop
        self._timer: Any = None
        self.waiting: dict[_OnHub, float] = {}
        """Deadlines of the waits."""
        self.rings_at = math.inf

    def start_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.close()
        self.rings_at = deadline
        seconds = max(0.0, deadline - time.monotonic())
        self._timer = self._loop.timer(seconds, ref=False)
        # The loop's clock is cached, so it may be that of its last iteration.
        self._timer.start(self._end_late_waits, update=True)

    def _end_late_waits(self) -> None:
        now = time.monotonic()
        later = math.inf
        for line, deadline in self.waiting.items():
            if deadline <= now:
                line.break_off()
            else:
                later = min(later, deadline)
        self.rings_at = math.inf
        if later < math.inf:
            self.start_timer(later)


# One per hub, and each thread has its own hub.
_ALARMS: weakref.WeakKeyDictionary[Any, _Alarm] = weakref.WeakKeyDictionary()


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
        self._line = open_socket(port, deadline)
        self._got, self._at = b"", 0
        self.deadline = deadline
        """Deadline of the call under way, which also holds for frames sent meanwhile."""
        self.received_bytes = 0

    def close(self) -> None:
        self._line.close()

    def send(self, frames: bytes) -> None:
        """Send frames. Raises `DeadlineError`."""
        self._line.send(frames, self.deadline)

    def read_ahead(self) -> bytes:
        """Return the received bytes that were not consumed yet, at least one. Raises `DeadlineError`."""
        if self._at == len(self._got):
            self._got, self._at = self._line.receive(_FEW_BYTES, self.deadline), 0
            self.received_bytes += len(self._got)
        return self._got[self._at :]

    def consume_all(self) -> None:
        """Consume all received bytes."""
        self._at = len(self._got)

    def has_next(self) -> bool:
        """Return whether a whole frame was received. Raises `BrokenOffError` if the connection ended."""
        if not self._has_whole_frame():
            piece = self._line.receive_available(_FEW_BYTES)
            if not piece:
                return False
            self._got, self._at = self._got[self._at :] + piece, 0
            self.received_bytes += len(piece)
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
            piece = self._line.receive(most_bytes, self.deadline)
            pieces.append(piece)
            missing -= len(piece)
            self.received_bytes += len(piece)
        self._got, self._at = b"".join(pieces), 0
