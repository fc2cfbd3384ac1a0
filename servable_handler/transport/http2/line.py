"""A connection to a port of this machine that waits for answers, each until a deadline.

Under gevent a socket's recv() reads in vain before it waits, and sets up a timer for each wait:
a fifth of what the whole call costs. `_OnHub` waits on gevent's hub first, and has one timer.
Source: https://www.gevent.org/api/gevent.hub.html (Hub.wait, Hub.loop)
"""

import math
import socket
import sys
import time
import weakref
from contextlib import suppress
from typing import Any, Protocol

from servable_handler.transport.rest import BrokenOffError, connected, left

_CLOSED = "the connection was closed"


class DeadlineSocket(Protocol):
    """Methods raise OSError and `BrokenOffError`; it is to be closed then."""

    def send(self, data: bytes, deadline: float) -> None:
        """Raises `DeadlineError`."""

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        """What there is, one byte at least. Raises `DeadlineError`."""

    def received(self, most_bytes: int) -> bytes:
        """What has come already, b"" where nothing has."""

    def close(self) -> None: ...


def line_to(port: int, deadline: float) -> DeadlineSocket:
    """Raises `DeadlineError`, `NotTakenError`."""
    connection = connected(port, deadline)
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        return _InKernel(connection)
    plain = monkey.get_original("socket", "socket")
    return _OnHub(plain(socket.AF_INET, socket.SOCK_STREAM, fileno=connection.detach()))


class _InKernel:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.close = connection.close

    def send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(left(deadline))
        self._socket.sendall(data)

    def receive(self, most_bytes: int, deadline: float) -> bytes:
        self._socket.settimeout(left(deadline))
        return _read(self._socket, most_bytes)

    def received(self, most_bytes: int) -> bytes:
        self._socket.settimeout(0)
        try:
            return _read(self._socket, most_bytes)
        except BlockingIOError:
            return b""


class _OnHub:
    """Its socket is one that gevent did not patch, and never blocks."""

    def __init__(self, connection: socket.socket) -> None:
        import gevent

        connection.setblocking(False)
        self._socket = connection
        self._hub = hub = gevent.get_hub()
        self._readable = hub.loop.io(connection.fileno(), 1)
        self._alarm = _ALARMS.setdefault(hub, _Alarm(hub))

    def close(self) -> None:
        self._readable.close()  # before another file gets its number
        self._socket.close()

    def break_off(self) -> None:
        """Whoever waits finds the connection at its end; no one else can take it for a good one."""
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
                continue  # the hub was wrong
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
    """Breaks off every wait that lasts beyond its deadline. A request sets no timer of its own."""

    def __init__(self, hub: Any) -> None:
        self._loop = hub.loop
        self._timer: Any = None
        self.waiting: dict[_OnHub, float] = {}
        """Until when."""
        self.rings_at = math.inf

    def set(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.close()
        self.rings_at = deadline
        seconds = max(0.0, deadline - time.monotonic())
        self._timer = self._loop.timer(seconds, ref=False)
        # The loop's own clock may stand at its last turn.
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


# One for each hub: a thread has its own.
_ALARMS: weakref.WeakKeyDictionary[Any, _Alarm] = weakref.WeakKeyDictionary()
