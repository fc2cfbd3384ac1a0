"""A connection to a port of this host that waits for answers, each until a deadline.

Under gevent a socket's recv() tries to read before it waits, and creates a timer for each wait, which
is a fifth of the cost of a call. `_OnHub` waits on gevent's hub first, and has one timer.
Source: https://www.gevent.org/api/gevent.hub.html (Hub.wait, Hub.loop)
"""

import math
import socket
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

from servable_handler.transport.rest import BrokenOffError, connected, left

_CLOSED = "the connection was closed"


def line_to(port: int, deadline: float) -> "DeadlineSocket":
    """Connects to a port. Raises `DeadlineError`, `NotTakenError`."""
    connection = connected(port, deadline)
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
        """Sends all data. Raises `DeadlineError`."""
        self._socket.settimeout(left(deadline))
        self._socket.sendall(data)

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        """Receives at least one byte. Raises `DeadlineError`."""
        self._socket.settimeout(left(deadline))
        return _read(self._socket, most_bytes)

    def received(self, most_bytes: int) -> bytes:
        """Returns what was received already; b"" if nothing was."""
        self._socket.settimeout(0)
        try:
            return _read(self._socket, most_bytes)
        except BlockingIOError:
            return b""


class _OnHub(DeadlineSocket):
    """A socket that gevent did not patch, which never blocks."""

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
        """Shuts the connection down, so that a waiting call ends and no other call uses it."""
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
            left(deadline)

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        while True:
            self._wait(self._readable, deadline)
            try:
                return _read(self._socket, most_bytes)
            except BlockingIOError:
                continue  # a spurious wake-up of the hub
            except BrokenOffError:
                left(deadline)
                raise

    def received(self, most_bytes: int) -> bytes:
        try:
            return _read(self._socket, most_bytes)
        except BlockingIOError:
            return b""

    def _wait(self, watcher: Any, deadline: float) -> None:
        alarm = self._alarm
        alarm.waiting[self] = deadline
        if deadline < alarm.rings_at:
            alarm.set(deadline)
        try:
            self._hub.wait(watcher)
        finally:
            del alarm.waiting[self]


def _read(connection: socket.socket, most_bytes: int) -> bytes:
    piece = connection.recv(most_bytes)
    if not piece:
        raise BrokenOffError(_CLOSED)
    return piece


class _Alarm:
    """One timer that ends every wait beyond its deadline, so that requests need no timers."""

    def __init__(self, hub: Any) -> None:
        self._loop = hub.loop
        self._timer: Any = None
        self.waiting: dict[_OnHub, float] = {}
        """Deadlines of the waits."""
        self.rings_at = math.inf

    def set(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.close()
        self.rings_at = deadline
        seconds = max(0.0, deadline - time.monotonic())
        self._timer = self._loop.timer(seconds, ref=False)
        # The loop's clock is cached, so it may be that of its last iteration.
        self._timer.start(self._ring, update=True)

    def _ring(self) -> None:
        now = time.monotonic()
        later = math.inf
        for line, deadline in self.waiting.items():
            if deadline <= now:
                line.break_off()
            else:
                later = min(later, deadline)
        self.rings_at = math.inf
        if later < math.inf:
            self.set(later)


# One per hub, and each thread has its own hub.
_ALARMS: weakref.WeakKeyDictionary[Any, _Alarm] = weakref.WeakKeyDictionary()
