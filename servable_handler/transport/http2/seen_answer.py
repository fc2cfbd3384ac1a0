"""The bytes around a gRPC call's message: the same for one answer after the other.

A server sends headers, one message and a status. Where an answer is as long as the last one
that was read frame by frame, and all but its message and its stream's number is the same,
reading it so again would find the same. Sound because no table of headers is used
(servable_handler/transport/http2/hpack.py): the same bytes mean the same.
"""

from typing import NamedTuple

from servable_handler.transport.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS

Shape = tuple[int, int, int]
"""A frame's type, its flags, and the bytes of its payload."""
_PREFIX_BYTES = 5  # before a message: whether it is compressed, and its length


class SeenAnswer(NamedTuple):
    """What stands before, between and behind the two or three places of the stream's number."""

    length: int
    headers: bytes
    data: bytes
    message: bytes
    trailers: bytes
    end: bytes

    def message_in(self, answer: bytes, stream: bytes) -> bytes | None:
        """The message; None for an answer that is of another form."""
        if len(answer) != self.length:
            return None
        before = self.headers + stream + self.data + stream + self.message
        behind = self.trailers + stream + self.end
        if answer.startswith(before) and answer.endswith(behind):
            return answer[len(before) : len(answer) - len(behind)]
        return None


def seen(answer: bytes, shapes: list[Shape]) -> SeenAnswer | None:
    """Of an answer that was read as these frames; None where it is no plain one."""
    plain = [(HEADERS, END_HEADERS), (DATA, 0), (HEADERS, END_HEADERS | END_STREAM)]
    if [shape[:2] for shape in shapes] != plain:
        return None
    data = 9 + shapes[0][2]
    trailers = data + 9 + shapes[1][2]
    if trailers + 9 + shapes[2][2] != len(answer):
        return None
    return SeenAnswer(
        len(answer),
        answer[:5],
        answer[9 : data + 5],
        answer[data + 9 : data + 9 + _PREFIX_BYTES],
        answer[trailers : trailers + 5],
        answer[trailers + 9 :],
    )
