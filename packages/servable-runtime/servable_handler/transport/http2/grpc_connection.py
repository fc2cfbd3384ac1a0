"""Consecutive gRPC calls on one connection, with the part of HTTP/2 that they need.

Anything that a gRPC server would not send is rejected: a response is read exactly as grpcio reads
it, or not at all (tests/fuzz/test_http2_answers.py).
Source: RFC 9113 (HTTP/2), https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import re
import struct
from collections.abc import Mapping

from servable_handler.transport.http2 import frames
from servable_handler.transport.http2.frames import (
    Frames,
    UnexpectedAnswerError,
    build_frame,
    encode_headers,
    read_headers,
)
from servable_handler.transport.rest import (
    HOST,
    BrokenOffError,
    NotTakenError,
    compute_seconds_left,
)

_FIRST_WINDOW = 65_535
# The server's window shrinks and is never renewed: after this many received bytes the connection is
# closed, and half of the window is left for the last response.
_MOST_RECEIVED_BYTES = 1 << 30
_MOST_MESSAGE_BYTES = 1 << 30
_LAST_STREAM = 1 << 30
_HEADER_BYTES = 1 << 10  # more than a call's headers, as HTTP/2 counts them
# gRPC's library rejects more bytes of headers than this, plus 32 for each, in a response.
_MOST_ANSWER_HEADER_BYTES = 1 << 13
# Maximum number of empty frames, or frames outside of a response, while waiting for it.
_MOST_OTHER_FRAMES = 1_000
_PREFIX_BYTES = 5
_MESSAGE = struct.Struct(">BI")  # compression flag, length
_CONTENT_TYPE = re.compile(rb"application/grpc([+;].+)?")
_ENCODINGS = (b"identity", b"deflate", b"gzip")
_STATUS = re.compile(rb"0|[1-9][0-9]{0,2}")
# HTTP/2's error code of a reset to the gRPC status that grpcio uses; 13 is INTERNAL.
_REFUSED_STREAM, _INTERNAL = 7, 13
_STATUS_OF_RESET = {8: 1, 11: 8, 12: 7}
_LAST_ERROR = 13  # the highest error code of HTTP/2
_ALTSVC = 10
# No table of headers (1), no pushes (2), the largest windows and frames (4, 5).
_SETTINGS = ((1, 0), (2, 0), (4, frames.LARGEST), (5, (1 << 24) - 1))
# Allowed ranges of a server's settings: pushes, window, size of a frame, CONNECT.
_ALLOWED = {2: (0, 0), 4: (0, frames.LARGEST), 5: (1 << 14, (1 << 24) - 1), 8: (0, 1)}
_OPENING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + build_frame(frames.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in _SETTINGS))
    + build_frame(frames.WINDOW, 0, 0, struct.pack(">I", frames.LARGEST - _FIRST_WINDOW))
)


class UnsupportedError(Exception):
    """The error of a required feature that only grpcio supports; nothing was sent."""


class CallFailedError(Exception):
    """The error of a call that the server rejected or reset."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class GrpcConnection:
    """A connection to one port. `usable` turns False when the next call needs another connection."""

    def __init__(self, port: int, deadline: float) -> None:
        """Connect to a port. Raises `NotTakenError`, `DeadlineError`."""
        self._frames = Frames(port, deadline)
        self._authority = f"{HOST}:{port}".encode()
        self._opening = _OPENING
        self._stream = -1
        self._window = self._window_of_a_call = self._window_of_this_call = _FIRST_WINDOW
        self._takes_calls = True
        self._greeted = self._acknowledged = False
        self._waits = self._began = False
        """Whether a response is expected, and whether the server has begun with it."""
        self.usable = True

    def close(self) -> None:
        self._frames.close()

    def is_ready(self, request: bytes, deadline: float) -> bool:
        """Return whether the connection can send the request now.

        First it reads what arrived while the connection was idle. Raises `UnsupportedError`,
        `DeadlineError`.
        """
        self._frames.deadline = deadline
        try:
            while self._frames.has_next():
                self._apply_frame(*self._frames.read_next())
        except (OSError, BrokenOffError, UnexpectedAnswerError):
            self.usable = False
        size = _PREFIX_BYTES + len(request)
        if size > self._window_of_a_call or not self._takes_calls:
            raise UnsupportedError("the server's HTTP/2 settings don't allow a call")
        return self.usable and size <= self._window and self._stream < _LAST_STREAM

    def call(self, path: str, request: bytes, deadline: float) -> tuple[int, bytes, bytes]:
        """Make a call; return gRPC's status, its message, and the serialized reply.

        Raises `CallFailedError`, `UnexpectedAnswerError`, `NotTakenError`, `BrokenOffError`,
        `DeadlineError`, OSError; close the connection then.
        """
        self._stream += 2
        data = _MESSAGE.pack(0, len(request)) + request  # 0: not compressed
        self._window -= len(data)
        self._window_of_this_call = self._window_of_a_call - len(data)
        self._frames.deadline = deadline
        self._waits, self._began = True, False
        headers = encode_headers(self._authority, path, compute_seconds_left(deadline))
        self._frames.send(
            self._opening
            + build_frame(frames.HEADERS, frames.END_HEADERS, self._stream, headers)
            + build_frame(frames.DATA, frames.END_STREAM, self._stream, data)
        )
        self._opening = b""
        answer = self._read_response()
        self._waits = False
        if self._frames.received_bytes > _MOST_RECEIVED_BYTES:
            self.usable = False
        return answer

    def _read_response(self) -> tuple[int, bytes, bytes]:
        pieces: list[bytes] = []
        size, whole, others = 0, 0, 0
        while True:
            kind, flags, stream, payload = self._frames.read_next()
            if kind not in (frames.DATA, frames.HEADERS) or not payload:
                others += 1
                if others > _MOST_OTHER_FRAMES:
                    raise UnexpectedAnswerError(
                        f"more than {_MOST_OTHER_FRAMES:,} frames outside the response"
                    )
            if kind not in (frames.DATA, frames.HEADERS):
                self._apply_frame(kind, flags, stream, payload)
                continue
            if stream != self._stream or not self._greeted:
                raise UnexpectedAnswerError("the response is of another call, or before settings")
            if kind == frames.DATA:
                if flags or not self._began:
                    raise UnexpectedAnswerError("data comes before headers, or has flags")
                pieces.append(payload)
                size += len(payload)
                if size >= _PREFIX_BYTES and not whole:
                    compressed, length = _MESSAGE.unpack(b"".join(pieces)[:_PREFIX_BYTES])
                    if compressed or length > _MOST_MESSAGE_BYTES:
                        raise UnexpectedAnswerError(
                            f"the message is compressed, or too large ({length:,} bytes)"
                        )
                    whole = _PREFIX_BYTES + length
                if whole and size > whole:
                    raise UnexpectedAnswerError("the message is longer than its prefix states")
                continue
            headers = self._parse_headers(flags, payload)
            if flags & frames.END_STREAM:
                break
        code = headers.get(b"grpc-status", b"")
        if not _STATUS.fullmatch(code):
            raise CallFailedError(
                _INTERNAL, f"the response has the invalid gRPC status {code!r:.60}"
            )
        if code != b"0":
            return int(code), headers.get(b"grpc-message", b""), b""
        if not whole or size != whole:
            raise UnexpectedAnswerError("the response doesn't contain exactly one message")
        return 0, b"", b"".join(pieces)[_PREFIX_BYTES:]

    def _parse_headers(self, flags: int, payload: bytes) -> Mapping[bytes, bytes]:
        if flags & ~(frames.END_STREAM | frames.END_HEADERS):
            raise UnexpectedAnswerError("the headers have padding or a priority")
        if not flags & frames.END_HEADERS:
            payload = self._read_continuation(payload)
        headers = read_headers(payload)
        ends = bool(flags & frames.END_STREAM)
        if self._began == (b":status" in headers) or (self._began and not ends):
            raise UnexpectedAnswerError("the headers are at an unexpected position in the response")
        if not self._began and not _CONTENT_TYPE.fullmatch(headers.get(b"content-type", b"")):
            raise UnexpectedAnswerError(f"the content type is {headers.get(b'content-type')!r:.60}")
        if headers.get(b"grpc-encoding", b"identity") not in _ENCODINGS:
            raise UnexpectedAnswerError("the message encoding isn't one of gRPC's")
        if not ends and (b"grpc-status" in headers or b"grpc-message" in headers):
            raise UnexpectedAnswerError("the gRPC status comes before the message")
        if headers.get(b"grpc-status", b"0") == b"0":
            listed = sum(len(name) + len(value) + 32 for name, value in headers.items())
            if listed > _MOST_ANSWER_HEADER_BYTES:
                raise UnexpectedAnswerError(
                    f"the headers have {listed:,} bytes, which is too large"
                )
        self._began = True
        return headers

    def _read_continuation(self, start: bytes) -> bytes:
        block, flags, others = start, 0, 0
        while not flags & frames.END_HEADERS:
            kind, flags, stream, piece = self._frames.read_next()
            if (kind, stream) != (frames.CONTINUATION, self._stream):
                raise UnexpectedAnswerError("a CONTINUATION frame is missing after the headers")
            if flags & ~frames.END_HEADERS:
                raise UnexpectedAnswerError("a CONTINUATION frame has unexpected flags")
            block += piece
            others += 1
            if len(block) > frames.MOST_BYTES_WITHOUT_DATA or others > _MOST_OTHER_FRAMES:
                raise UnexpectedAnswerError("the headers are too long or have no end")
        return block

    def _apply_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Apply a frame that is not part of the response, such as settings or a ping."""
        if not self._greeted and (kind, flags) != (frames.SETTINGS, 0):
            raise UnexpectedAnswerError("the server doesn't use HTTP/2")
        _check_frame(kind, flags, stream, len(payload))
        if stream and (stream > self._stream or stream % 2 == 0):
            raise UnexpectedAnswerError("a frame belongs to a call that wasn't made")
        first = int.from_bytes(payload[:4], "big") & frames.LARGEST
        if kind == frames.SETTINGS:
            self._apply_settings(flags, payload)
        elif kind == frames.PING and not flags:
            self._frames.send(build_frame(frames.PING, frames.ACKNOWLEDGED, 0, payload))
        elif kind == frames.WINDOW:
            more = int.from_bytes(payload, "big")
            if stream == 0:
                self._window += more
            elif self._waits and stream == self._stream:
                self._window_of_this_call += more
            if not 0 < more <= frames.LARGEST:
                raise UnexpectedAnswerError(
                    f"a flow-control window grows by the invalid value {more:,}"
                )
            self._check_windows()
        elif kind == frames.GOAWAY:
            if int.from_bytes(payload[4:8], "big") > _LAST_ERROR:
                raise UnexpectedAnswerError("the server sent GOAWAY with an unknown error code")
            self.usable = False
            if self._waits and self._stream > first:
                self._raise_not_taken("the model server is going away")
        elif kind == frames.RESET and self._waits and stream == self._stream:
            code = int.from_bytes(payload, "big")
            if code == _REFUSED_STREAM:
                self._raise_not_taken("the model server refused the call")
            raise CallFailedError(
                _STATUS_OF_RESET.get(code, _INTERNAL), f"the server reset the call (code {code})"
            )

    def _raise_not_taken(self, reason: str) -> None:
        if self._began:
            raise UnexpectedAnswerError(f"{reason} after it had sent part of the response")
        raise NotTakenError(reason)

    def _check_windows(self) -> None:
        if max(self._window, self._window_of_this_call) > frames.LARGEST:
            raise UnexpectedAnswerError("a flow-control window exceeds HTTP/2's maximum")

    def _apply_settings(self, flags: int, payload: bytes) -> None:
        """Apply and acknowledge the server's settings, or record its acknowledgement.

        They are 3 concurrent calls, 4 a call's window, 6 bytes of headers; others are ignored.
        """
        if flags:
            if payload or self._acknowledged:
                raise UnexpectedAnswerError("the server acknowledged settings that weren't sent")
            self._acknowledged = True
            return
        self._greeted = True
        pairs = list(struct.iter_unpack(">HI", payload))
        for key, value in pairs:
            least, most = _ALLOWED.get(key, (0, value))
            if not least <= value <= most:
                raise UnexpectedAnswerError(
                    f"the HTTP/2 setting {key} has the invalid value {value:,}"
                )
        settings = dict(pairs)
        window = settings.get(4, self._window_of_a_call)
        self._window_of_this_call += window - self._window_of_a_call
        self._window_of_a_call = window
        self._check_windows()
        if settings.get(3, 1) == 0 or settings.get(6, frames.LARGEST) < _HEADER_BYTES:
            self._takes_calls = False
        self._frames.send(build_frame(frames.SETTINGS, frames.ACKNOWLEDGED, 0, b""))


def _check_frame(kind: int, flags: int, stream: int, size: int) -> None:
    """Raise `UnexpectedAnswerError` for flags, a stream, or a length that the type doesn't allow."""
    fits = {
        frames.SETTINGS: stream == 0 and size % 6 == 0,
        frames.PING: stream == 0 and size == 8,
        frames.GOAWAY: stream == 0 and size >= 8,
        frames.RESET: stream > 0 and size == 4,
        frames.WINDOW: size == 4,
    }
    acknowledges = kind in (frames.SETTINGS, frames.PING) and flags == frames.ACKNOWLEDGED
    # Not allowed: priorities, pushes, and parts of a response. Later types are ignored.
    if kind <= _ALTSVC and not (fits.get(kind) and (flags == 0 or acknowledges)):
        raise UnexpectedAnswerError(
            f"invalid frame: type {kind}, flags {flags:#x}, stream {stream}, {size:,} bytes"
        )
