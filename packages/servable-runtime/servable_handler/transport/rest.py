"""HTTP to a model server's REST port in this container, over connections that are kept open.

A request through a plain socket costs 0.02 CPU-ms; http.client takes 0.1 and requests 0.95, which is
more than everything else that the handler does for a small body.
"""

import re
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol, TypeVar

HOST = "127.0.0.1"
MOST_KEPT = 32  # idle connections for each port
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_MOST_HEAD_BYTES = 1 << 16
_PIECE_BYTES = 1 << 18


class NotTakenError(Exception):
    """The error of a request that no model server processed, so that it can be sent again."""


class BrokenOffError(Exception):
    """The error of a connection that broke, or an invalid response, after bytes were sent.

    The request may have run, and may be why the server ended, so it is not sent again.
    """


class DeadlineError(Exception):
    """The error of a passed deadline."""


class _Connection(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Connection)


class IdleConnections(defaultdict[int, list[Connection]]):
    """The idle connections of one process, by port. Thread-safe: a list's append and pop are atomic."""

    def __init__(self) -> None:
        super().__init__(list)

    def take(self, port: int, is_ready: Callable[[Connection], bool]) -> Connection | None:
        """Return a connection that is ready, or None. Others are closed."""
        while True:
            try:
                connection = self[port].pop()
            except IndexError:
                return None
            ready = False
            try:
                if ready := is_ready(connection):
                    return connection
            finally:
                if not ready:
                    connection.close()

    def give_back(self, port: int, connection: Connection, *, usable: bool) -> None:
        if usable and len(self[port]) < MOST_KEPT:
            self[port].append(connection)
        else:
            connection.close()


class RestConnections:
    """The connections of one process, opened on first use. It is thread-safe."""

    def __init__(self) -> None:
        self._idle: IdleConnections[socket.socket] = IdleConnections()

    def exchange(
        self, port: int, method: str, path: str, body: bytes, *, deadline: float
    ) -> tuple[int, bytes]:
        """Send a request at most once; return status and body of the response.

        Raises `NotTakenError`, `BrokenOffError`, `DeadlineError`.
        """
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        connection = self._idle.take(port, is_open) or open_connection(port, deadline)
        try:
            status, answer, kept = _exchange(connection, head, body, deadline)
        except BaseException:
            connection.close()
            raise
        self._idle.give_back(port, connection, usable=kept)
        return status, answer


def is_open(connection: socket.socket, *, silent: bool = True) -> bool:
    """Return whether an idle connection is open.

    With `silent` it must also have received no unexpected bytes. Call it right before a request
    is written, because a model server that ended has closed it by then.
    """
    try:
        connection.settimeout(0)
        while connection.recv(_PIECE_BYTES):
            if silent:
                return False
    except BlockingIOError:
        return True
    except OSError:
        pass  # reset, or closed here
    return False


def open_connection(port: int, deadline: float) -> socket.socket:
    """Open a connection. Raises `NotTakenError`, `DeadlineError`."""
    try:
        connection = socket.create_connection((HOST, port), timeout=compute_seconds_left(deadline))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError:
        raise DeadlineError from None
    except OSError as error:
        raise NotTakenError(str(error)) from None
    return connection


def _exchange(
    connection: socket.socket, head: bytes, body: bytes, deadline: float
) -> tuple[int, bytes, bool]:
    """Send a request and return status, body, and whether the connection can be used again."""
    got, end = b"", -1
    try:
        connection.settimeout(compute_seconds_left(deadline))
        if len(body) < _PIECE_BYTES:
            connection.sendall(head + body)
        else:
            connection.sendall(head)
            connection.sendall(body)
        while end < 0:
            connection.settimeout(compute_seconds_left(deadline))
            got += _receive_piece(connection)
            end = got.find(b"\r\n\r\n")
            if end < 0 and len(got) > _MOST_HEAD_BYTES:
                raise BrokenOffError("the response's headers have no end")
        top, rest = got[: end + 2], got[end + 4 :]
        status = int(top[9:12])
        # TensorFlow Serving sends whole responses with their length: PartialReply isn't implemented in
        # tensorflow_serving/util/net_http/server/internal/evhttp_request.cc (2026-11-29).
        if not (length := _LENGTH.search(top)):
            raise BrokenOffError("the response has no length")
        answer = _read_whole(connection, rest, int(length[1]), deadline)
        extra = rest[int(length[1]) :]
    except TimeoutError:
        raise DeadlineError from None
    except (OSError, ValueError) as error:
        raise BrokenOffError(str(error)) from None
    # Bytes after the response would be read as the next response.
    return status, answer, not extra and not _CLOSE.search(top)


def _read_whole(connection: socket.socket, start: bytes, length: int, deadline: float) -> bytes:
    if len(start) >= length:
        return start[:length]
    pieces, missing = [start], length - len(start)
    while missing > 0:
        connection.settimeout(compute_seconds_left(deadline))
        piece = _receive_piece(connection)
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _receive_piece(connection: socket.socket) -> bytes:
    piece = connection.recv(_PIECE_BYTES)
    if not piece:
        raise BrokenOffError("the connection was closed")
    return piece


def compute_seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineError
    return left
