"""gRPC calls one after the other on one connection: as much of HTTP/2 as they need.

Source: RFC 9113 (HTTP/2), https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import struct

from serving import frames
from serving.frames import Frames, frame
from serving.hpack import Unexpected, read, request_headers
from serving.rest import HOST, Unreachable, left
from serving.seen_answer import SeenAnswer, Shape, seen

_FIRST_WINDOW = 65_535
# What the server may still send shrinks and is never renewed: with this much received the
# connection is given up, and half of what it could send is left for the last answer.
_MOST_RECEIVED_BYTES = 1 << 30
_LAST_STREAM = 1 << 30
_MOST_HEADER_BYTES = 1 << 16
_HEADER_BYTES = 1 << 10  # more than a call's headers, as HTTP/2 counts them
_MESSAGE = struct.Struct(">BI")
# The gRPC status for what a server resets a call with, as grpcio has it; 13 is INTERNAL.
_REFUSED_STREAM, _INTERNAL = 7, 13
_STATUS_OF_RESET = {8: 1, 11: 8, 12: 7}
# No table of headers (1), no pushes (2), windows and frames as large as can be (4, 5).
_SETTINGS = ((1, 0), (2, 0), (4, frames.LARGEST), (5, (1 << 24) - 1))
_OPENING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(frames.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in _SETTINGS))
    + frame(frames.WINDOW, 0, 0, struct.pack(">I", frames.LARGEST - _FIRST_WINDOW))
)


class NotTaken(Unreachable):
    """The call was not sent, or the server says that it has not begun with it."""


class Failed(Exception):
    """The server's own refusal, or what it broke the call off for."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class GrpcConnection:
    """To one port. `usable` turns False when the next call needs another connection."""

    def __init__(self, port: int, deadline: float) -> None:
        self._frames = Frames(port, deadline)
        self._authority = f"{HOST}:{port}".encode()
        self._opening = _OPENING
        self._stream = -1
        self._window = self._window_of_a_call = _FIRST_WINDOW
        self._takes_calls = True
        self._received_before = 0
        self._seen: SeenAnswer | None = None
        self.usable = True

    @property
    def heard(self) -> bool:
        """Whether anything came since the last call was sent."""
        return self._frames.received_bytes > self._received_before

    def close(self) -> None:
        self._frames.close()

    def call(self, path: str, request: bytes, deadline: float) -> tuple[int, bytes, bytes]:
        """gRPC's status, its message, and the serialized reply.

        Raises `Failed`, `Unexpected`, `Unreachable`, `TooLate`, OSError; it is to be closed then.
        """
        self._stream += 2
        data = _MESSAGE.pack(0, len(request)) + request  # 0: not compressed
        if len(data) > self._window_of_a_call or not self._takes_calls:
            raise Unexpected("settings that leave no room for a call")
        if len(data) > self._window or self._stream > _LAST_STREAM:
            raise NotTaken("no window left")  # on a new connection there is
        self._window -= len(data)
        self._received_before = self._frames.received_bytes
        headers = request_headers(self._authority, path, left(deadline))
        self._frames.send(
            self._opening
            + frame(frames.HEADERS, frames.END_HEADERS, self._stream, headers)
            + frame(frames.DATA, frames.END_STREAM, self._stream, data),
            deadline,
        )
        self._opening = b""
        found = self._answer(deadline)
        if self._frames.received_bytes > _MOST_RECEIVED_BYTES:
            self.usable = False
        return found

    def _answer(self, deadline: float) -> tuple[int, bytes, bytes]:
        ahead = self._frames.ahead(deadline)
        if self._seen is not None:
            reply = self._seen.message_in(ahead, self._stream.to_bytes(4, "big"))
            if reply is not None:
                self._frames.take_all()
                return 0, b"", reply
        shapes: list[Shape] = []
        pieces: list[bytes] = []
        code, message, flags = b"", b"", 0
        while not flags & frames.END_STREAM:
            kind, flags, stream, payload = self._frames.next(deadline)
            shapes.append((kind, flags, len(payload)))
            if stream != self._stream or kind not in (frames.DATA, frames.HEADERS):
                self._aside(kind, flags, stream, payload)
                flags = 0
                continue
            if flags & frames.PADDED:
                payload = _without_padding(payload)
            if kind == frames.DATA:
                pieces.append(payload)
                continue
            if flags & frames.PRIORITY:
                payload = payload[5:]
            if not flags & frames.END_HEADERS:
                payload += self._continued(deadline)
            said = read(payload)
            code, message = said.get(b"grpc-status", code), said.get(b"grpc-message", message)
        if not code.isdigit():
            raise Unexpected("an answer without a status")
        if int(code):
            return int(code), message, b""
        reply = b"".join(pieces)
        if len(reply) < 5 or reply[0] or len(reply) != 5 + int.from_bytes(reply[1:5], "big"):
            raise Unexpected("an answer that is not one message")
        self._seen = seen(ahead, shapes)
        return 0, b"", reply[5:]

    def _continued(self, deadline: float) -> bytes:
        pieces, flags = b"", 0
        while not flags & frames.END_HEADERS:
            kind, flags, stream, piece = self._frames.next(deadline)
            pieces += piece
            if (kind, stream) != (frames.CONTINUATION, self._stream):
                raise Unexpected("headers that do not go on")
            if len(pieces) > _MOST_HEADER_BYTES:
                raise Unexpected("headers without an end")
        return pieces

    def _aside(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """What is not the answer itself."""
        first = int.from_bytes(payload[:4], "big") & frames.LARGEST
        if kind == frames.RESET and stream == self._stream:
            if first == _REFUSED_STREAM:
                raise NotTaken("the model server refused the call")
            raise Failed(_STATUS_OF_RESET.get(first, _INTERNAL), f"the call was reset ({first})")
        if kind == frames.SETTINGS and not flags & frames.ACKNOWLEDGED:
            self._agree(payload)
        elif kind == frames.PING and not flags & frames.ACKNOWLEDGED:
            self._frames.send(frame(frames.PING, frames.ACKNOWLEDGED, 0, payload))
        elif kind == frames.WINDOW and stream == 0:
            # Of the connection; a call's own is large enough for what we send.
            self._window += first
        elif kind == frames.GOAWAY:
            self.usable = False
            if self._stream > first:
                raise NotTaken("the model server is going away")

    def _agree(self, settings: bytes) -> None:
        """3: calls at once, 4: a call's window, 6: bytes of headers. The others are not for us."""
        told = dict(struct.iter_unpack(">HI", settings[: len(settings) // 6 * 6]))
        self._window_of_a_call = told.get(4, self._window_of_a_call)
        if told.get(3, 1) == 0 or told.get(6, frames.LARGEST) < _HEADER_BYTES:
            self._takes_calls = False
        self._frames.send(frame(frames.SETTINGS, frames.ACKNOWLEDGED, 0, b""))


def _without_padding(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise Unexpected("more padding than frame")
    return payload[1 : len(payload) - payload[0]]
