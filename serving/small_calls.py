"""gRPC for small messages over plain sockets that are kept: one call at a time on each.

A call through grpcio costs the worker 0.3 to 0.45 CPU-ms, most of it for gRPC's own threads;
this costs 0.05. It speaks only as much HTTP/2 as one small unary call needs, and hands over
to grpcio whatever is larger or unexpected.
Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK),
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from urllib.parse import unquote

from serving.rest import HOST, MOST_KEPT, TooLate, Unreachable, connected, left

# With its headers within HTTP/2's first window and one frame, before any is agreed upon.
MOST_BYTES = 16_000
SERVICE = "/tensorflow.serving.PredictionService/"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACKNOWLEDGED, _PADDED_OR_PRIORITY = 0x1, 0x4, 0x1, 0x28
_LARGEST_WINDOW = (1 << 31) - 1
_FIRST_WINDOW = 65_535
_PIECE_BYTES = 1 << 18
_LAST_STREAM = 1 << 30
Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""


class Unexpected(Exception):
    """Something that this does not understand; grpcio will."""


class Failed(Exception):
    """The server's own refusal."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SmallCalls:
    """One process's connections, by port. Made on first use; safe between threads."""

    def __init__(self) -> None:
        self._idle: dict[int, list[_Connection]] = defaultdict(list)
        self._lock = threading.Lock()

    def call(self, port: int, method: str, request: bytes, *, deadline: float) -> bytes:
        """The serialized reply. Raises `Failed`, `Unexpected`, `Unreachable`, `TooLate`."""
        with self._lock:
            kept = self._idle[port].pop() if self._idle[port] else None
        if kept is not None:
            try:
                return self._use(kept, port, method, request, deadline)
            except Unreachable:
                pass  # closed while it was idle, most likely: once more, on a new one
        return self._use(_Connection(port, deadline), port, method, request, deadline)

    def _use(
        self, connection: "_Connection", port: int, method: str, request: bytes, deadline: float
    ) -> bytes:
        try:
            reply = connection.call(method, request, deadline)
        except TimeoutError:
            connection.close()
            raise TooLate from None
        except OSError as error:
            connection.close()
            raise Unreachable(str(error)) from None
        except Failed:
            self._keep(connection, port)
            raise
        except BaseException:
            connection.close()
            raise
        self._keep(connection, port)
        return reply

    def _keep(self, connection: "_Connection", port: int) -> None:
        with self._lock:
            if connection.usable and len(self._idle[port]) < MOST_KEPT:
                self._idle[port].append(connection)
                return
        connection.close()


class _Connection:
    def __init__(self, port: int, deadline: float) -> None:
        self._socket = connected(port, deadline)
        self._authority = f"{HOST}:{port}".encode()
        self._got = b""
        self._stream = -1
        self._window = _FIRST_WINDOW
        self.usable = True
        # No pushes, no table of headers, all that one answer can be at once.
        settings = struct.pack(">HIHIHIHI", 1, 0, 2, 0, 4, _LARGEST_WINDOW, 5, (1 << 24) - 1)
        more = struct.pack(">I", _LARGEST_WINDOW - _FIRST_WINDOW)
        self._opening = (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW, 0, 0, more)
        )

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, request: bytes, deadline: float) -> bytes:
        """May also raise OSError. After anything but `Failed` the connection is to be closed."""
        self._stream += 2
        data = b"\0" + struct.pack(">I", len(request)) + request
        if len(data) > self._window or self._stream > _LAST_STREAM:
            raise Unreachable("no window left")  # on a new connection there is
        self._window -= len(data)
        headers = _request_headers(self._authority, method, left(deadline))
        self._socket.settimeout(left(deadline))
        self._socket.sendall(
            self._opening
            + _frame(_HEADERS, _END_HEADERS, self._stream, headers)
            + _frame(_DATA, _END_STREAM, self._stream, data)
        )
        self._opening = b""
        body, trailers = self._answer(deadline)
        code = trailers.get(b"grpc-status")
        if code is None or not code.isdigit():
            raise Unexpected("an answer without a status")
        if int(code):
            raise Failed(int(code), unquote(trailers.get(b"grpc-message", b"").decode("latin1")))
        if len(body) < 5 or body[0] or len(body) != 5 + int.from_bytes(body[1:5], "big"):
            raise Unexpected("an answer that is not one message")
        return body[5:]

    def _answer(self, deadline: float) -> tuple[bytes, dict[bytes, bytes]]:
        body: list[bytes] = []
        found: dict[bytes, bytes] = {}
        while True:
            kind, flags, stream, payload = self._frame(deadline)
            if stream == self._stream and kind in (_DATA, _HEADERS):
                if flags & _PADDED_OR_PRIORITY or (kind == _HEADERS and not flags & _END_HEADERS):
                    raise Unexpected("a frame with padding, or continued")
                if kind == _DATA:
                    body.append(payload)
                else:
                    found |= dict(_fields(payload))
                if flags & _END_STREAM:
                    return b"".join(body), found
            elif stream == self._stream and kind == _RESET:
                raise Unreachable("the model server reset the call")
            else:
                self._housekeeping(kind, flags, stream, payload)

    def _housekeeping(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and _smaller_window(payload):
            raise Unexpected("a window that is smaller than HTTP/2's first")
        if kind in (_SETTINGS, _PING) and not flags & _ACKNOWLEDGED:
            reply = payload if kind == _PING else b""
            self._socket.sendall(_frame(kind, _ACKNOWLEDGED, 0, reply))
        elif kind == _WINDOW and stream == 0:
            # Of the connection; a stream's own is large enough for what we send.
            self._window += int.from_bytes(payload[:4], "big")
        elif kind == _GOAWAY:
            self.usable = False
            if self._stream > int.from_bytes(payload[:4], "big"):
                raise Unreachable("the model server is going away")

    def _frame(self, deadline: float) -> Frame:
        head = self._bytes(9, deadline)
        length = int.from_bytes(head[:3], "big")
        stream = int.from_bytes(head[5:9], "big") & _LARGEST_WINDOW
        return head[3], head[4], stream, self._bytes(length, deadline)

    def _bytes(self, count: int, deadline: float) -> bytes:
        if len(self._got) < count:
            pieces, missing = [self._got], count - len(self._got)
            while missing > 0:
                self._socket.settimeout(left(deadline))
                piece = self._socket.recv(_PIECE_BYTES)
                if not piece:
                    raise Unreachable("the connection was closed")
                pieces.append(piece)
                missing -= len(piece)
            self._got = b"".join(pieces)
        found, self._got = self._got[:count], self._got[count:]
        return found


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + struct.pack(">I", stream) + payload
    )


def _smaller_window(settings: bytes) -> bool:
    """Whether the server takes less of one call than we may send. 4: INITIAL_WINDOW_SIZE."""
    pairs = struct.iter_unpack(">HI", settings[: len(settings) // 6 * 6])
    return any(key == 4 and value < MOST_BYTES + 5 for key, value in pairs)


def _request_headers(authority: bytes, method: str, seconds: float) -> bytes:
    # Literals without indexing; the numbers are names in HPACK's static table.
    path, timeout = (SERVICE + method).encode(), b"%dm" % max(1, min(seconds, 99_999) * 1000)
    return (
        b"\x83\x86\x04" + bytes((len(path),)) + path  # :method POST, :scheme http, :path
        + b"\x01" + bytes((len(authority),)) + authority
        + b"\x0f\x10\x10application/grpc"  # content-type
        + b"\x00\x02te\x08trailers"
        + b"\x00\x0cgrpc-timeout" + bytes((len(timeout),)) + timeout
    )  # fmt: skip


def _fields(block: bytes) -> Iterator[tuple[bytes, bytes]]:
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
