"""A model server's answers over HTTP/2, legal and damaged, and three clients that read them.

`python -m tests.fuzz.http2_answers COUNT SEED` reads so many with ours, with the h2 library and
with grpcio. An answer that ours takes must be one for both others, with the same message; it
prints what ours refused that grpcio took, and exits with 1 at a difference.
"""

import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import grpc
import h2.config
import h2.connection
import h2.events
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from servable_handler.transport.channels import OPTIONS
from servable_handler.transport.http2 import frames, grpc_connection
from servable_handler.transport.http2.frames import UnexpectedAnswerError
from servable_handler.transport.rest import BrokenOffError, NotTakenError
from tests.servable_handler.http2_bytes import frame, hpack_number
from tests.servable_handler.raw_server import answering_calls

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""
Answers = list[bytes]
"""The bytes that a server sends for one call after the other on one connection."""
Replies = list[bytes | str]
"""What a client makes of them: a message, or why there is none."""
MANY_SECONDS = 1e6
_HUFFMAN = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


# --- answers


def answers(rng: random.Random) -> Answers:
    """One to three calls' answers; more than half of the first ones are legal."""
    count = rng.choice((1, 1, 2, 4))
    message = rng.randbytes(rng.choice((0, 1, 2, 40, 300, 3_000, 20_000)))
    damaged_from = rng.choice((0, 0, 1, count - 1, count))
    found = []
    like: list[Frame] = []
    for number in range(count):
        odd = number >= damaged_from
        if like and rng.random() < 0.8:
            # As a server answers one call like the one before: in the same bytes.
            frames = _again(rng, like, 2 * number + 1)
            if odd:
                rng.choice(_CHANGES)(rng, frames, 2 * number + 1)
        else:
            frames = _frames(rng, 2 * number + 1, message, odd=odd)
            like = [frame for frame in frames if frame[0] in (0, 1)]
        data = b"".join(frame(*one) for one in frames)
        if number >= damaged_from and rng.random() < 0.3:
            data = _damaged(rng, data)
        found.append(data)
    return found


def _again(rng: random.Random, frames: list[Frame], stream: int) -> list[Frame]:
    """For another call; with another message where it stands in one frame."""
    found = []
    for kind, flags, _, payload in frames:
        if kind == 0 and len(payload) > 5:
            payload = payload[:5] + rng.choice((payload[5:], rng.randbytes(len(payload) - 5)))
        found.append((kind, flags, stream, payload))
    return found


def _frames(rng: random.Random, stream: int, message: bytes, *, odd: bool) -> list[Frame]:
    how = rng.choice((0, 0, 1, 2)) if odd else 0
    frames: list[Frame] = []
    if stream == 1:
        frames.append((4, 0, 0, rng.choice((b"", b"\0\x03\0\0\0\x64", b"\0\4\0\0\xff\xff"))))
    fields = [(b":status", b"200"), (b"content-type", b"application/grpc")]
    trailers = [(b"grpc-status", b"0"), (b"grpc-message", b"")]
    if odd and rng.random() < 0.4:
        _alter(rng, rng.choice((fields, trailers)))
    frames.append((1, 4, stream, _block(rng, fields, odd)))
    prefixed = struct.pack(">BI", 0, len(message)) + message
    if odd and rng.random() < 0.15:
        prefixed = rng.choice(
            (b"\1" + prefixed[1:], prefixed + b"x", prefixed[:-1], prefixed * 2, b"",
             b"\2" + prefixed[1:], b"\0\xff\xff\xff\xff" + message)
        )  # fmt: skip
    cuts = sorted(rng.randrange(len(prefixed) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    cuts = sorted({0, *cuts, *range(0, len(prefixed), 16_000)})
    for start, end in zip(cuts, [*cuts[1:], len(prefixed)], strict=True):
        frames.append((0, 0, stream, prefixed[start:end]))
    frames.append((1, 5, stream, _block(rng, trailers, odd)))
    if rng.random() < 0.2:
        frames.insert(rng.randrange(1, len(frames)), _harmless(rng, stream))
    for _ in range(how):
        rng.choice(_CHANGES)(rng, frames, stream)
    return frames


_ODD_FIELDS = [
    (b":status", b"200"), (b":status", b"404"), (b":status", b"0200"), (b":path", b"/"), (b":new", b""),
    (b"grpc-status", b"0"), (b"grpc-status", b"00"), (b"grpc-status", b"+0"), (b"grpc-status", b" 0"),
    (b"grpc-status", b"0 "), (b"grpc-status", b"5"), (b"grpc-status", b"1000"), (b"grpc-status", b""),
    (b"grpc-status", b"4294967296"), (b"grpc-status", b"-0"), (b"grpc-message", b"a%20b"),
    (b"grpc-message", b"\xff"), (b"content-type", b"text/html"), (b"content-type", b"application/grpc+proto"),
    (b"content-type", b"application/grpc;x=y"), (b"content-type", b"application/grpcx"),
    (b"content-type", b""),
    (b"grpc-encoding", b"gzip"), (b"grpc-encoding", b"zstd"), (b"grpc-accept-encoding", b"x,, y"),
    (b"x-bin", b"YQ"), (b"x-bin", b"&&"), (b"x", b"a\nb"), (b"x", b"a\0b"), (b"X", b"y"), (b"", b"y"),
    (b"x y", b"z"), (b"x", b" y"), (b"x", b"y" * 5_000), (b"x" * 300, b"y" * 9_000), (b"x", b"\xe4"),
    (b"te", b"trailers"), (b"te", b"x"), (b"connection", b"close"), (b"transfer-encoding", b"chunked"),
    (b"content-length", b"1"), (b"content-length", b"x"), (b"grpc-timeout", b"1S"), (b"grpc-timeout", b"x"),
    (b"grpc-retry-pushback-ms", b"5"), (b"grpc-previous-rpc-attempts", b"x"), (b"host", b"x"),
    (b"user-agent", b"x"), (b"date", b"x"), (b"server", b"x"), (b"grpc-tags-bin", b"x"), (b"lb-token", b"x"),
    (b"x-envoy-peer-metadata", b"x"), (b"www-authenticate", b""), (b"cookie", b"a"), (b"x_y", b"1"),
    (b"grpc-new", b"x"), (b"lb-cost-bin", b"x"), (b"grpc-internal-encoding-request", b"gzip"), (b"x.y", b""),
]  # fmt: skip


def _alter(rng: random.Random, fields: list[tuple[bytes, bytes]]) -> None:
    what, at = rng.randrange(5), rng.randrange(len(fields))
    if what == 0:
        del fields[at]
    elif what == 1:
        fields.insert(at, fields[rng.randrange(len(fields))])
    elif what == 2:
        rng.shuffle(fields)
    elif what == 3:
        named = [field for field in _ODD_FIELDS if field[0] == fields[at][0]]
        fields[at] = rng.choice(named or _ODD_FIELDS)
    else:
        fields.insert(rng.randrange(len(fields) + 1), rng.choice(_ODD_FIELDS))


def _block(rng: random.Random, fields: list[tuple[bytes, bytes]], odd: bool) -> bytes:
    """The fields in HPACK; without `odd` in the forms that gRPC's server uses."""
    block = b"\x20" if rng.random() < 0.3 else b""
    for name, value in fields:
        block += _field(rng, name, value, odd)
        if odd and rng.random() < 0.03:
            block += rng.choice(
                (b"\x80", b"\xbe", b"\xff\x00", b"\x20", b"\x3f\x01", b"\x83", b"\x90", b"\x8d",
                 b"\x88", b"\x00\x7f\xff\xff\xff\xff\x0f", b"\x0f\x90\x00\x01x", b"\x0f\xff\xff", b"\x00",
                 b"\x00\x01x\x82\xff\xff", b"\x40\x01x\x01y\xbe", b"\x1f\x2e\x01x", b"\x10\x01x\x01y")
            )  # fmt: skip
    return block


def _field(rng: random.Random, name: bytes, value: bytes, odd: bool) -> bytes:
    if (name, value) == (b":status", b"200") and rng.random() < 0.7:
        return b"\x88"
    numbers = {b":status": (8, 12), b"content-type": (31,), b"date": (33,), b"server": (54,)}
    first, bits = rng.choice(((0x00, 4), (0x40, 6), (0x10, 4)))
    huffman = 0.03 if odd else 0.0
    if name in numbers and rng.random() < 0.6:
        head = hpack_number(first, bits, rng.choice(numbers[name]))
    else:
        head = bytes([first]) + _text(rng, name, huffman)
    return head + _text(rng, value, huffman)


def _text(rng: random.Random, text: bytes, huffman: float) -> bytes:
    if rng.random() < huffman:
        coded: bytes = _HUFFMAN.encode(text)
        return hpack_number(0x80, 7, len(coded)) + coded
    return hpack_number(0, 7, len(text)) + text


def _harmless(rng: random.Random, stream: int) -> Frame:
    return rng.choice(
        (
            (6, 0, 0, b"12345678"),
            (8, 0, 0, b"\0\0\1\0"),
            (8, 0, stream, b"\0\0\1\0"),
            (4, 1 if stream == 1 else 0, 0, b""),
            (7, 0, 0, struct.pack(">II", stream, 0)),
            (7, 0, 0, struct.pack(">II", (1 << 31) - 1, 0) + b"later"),
            (99, 0, 0, b"new"),
        )
    )


_PAYLOADS = (
    b"", b"\0", b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\7", b"\0\0\0\x08", b"\0\0\1\0", b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\3\x10", b"12345678", struct.pack(">II", 0, 0),
    struct.pack(">II", 1, 0), struct.pack(">II", 1, 11), b"\0\1\0\0\0\0", b"\0\2\0\0\0\1", b"\0\2\0\0\0\2",
    b"\0\3\0\0\0\0", b"\0\4\0\0\0\0", b"\0\4\x7f\xff\xff\xff", b"\0\4\x80\0\0\0", b"\0\5\0\0\0\0",
    b"\0\5\1\0\0\0", b"\0\5\0\0\x40\0", b"\0\6\0\0\0\0", b"\0\6\0\0\1\0", b"\0\x08\0\0\0\1",
    b"\0\x08\0\0\0\2", b"\xfe\3\0\0\0\1", b"\xfe\3\0\0\0\2", b"\x88", b"\0\0\0\0\0", b"\0\0\0\0\1x",
)  # fmt: skip
_FLAGS = (0, 0, 1, 1, 4, 4, 5, 5, 8, 9, 0x20, 0x2D, 2, 0x40, 0xFF)


def _a_frame(rng: random.Random, stream: int) -> Frame:
    kind, others = (
        rng.choice((*range(11), 16, 99, 200, 255)),
        (0, 2, stream | 1 << 31, (1 << 31) - 1),
    )
    streams = (stream, stream, stream + 2, max(stream - 2, 0), *others)
    return kind, rng.choice(_FLAGS), rng.choice(streams), rng.choice(_PAYLOADS)


def _insert(rng: random.Random, frames: list[Frame], stream: int) -> None:
    frames.insert(rng.randrange(len(frames) + 1), _a_frame(rng, stream))


def _delete(rng: random.Random, frames: list[Frame], stream: int) -> None:
    if len(frames) > 1:
        del frames[rng.randrange(len(frames))]


def _repeat(rng: random.Random, frames: list[Frame], stream: int) -> None:
    frames.insert(rng.randrange(len(frames)), rng.choice(frames))


def _swap(rng: random.Random, frames: list[Frame], stream: int) -> None:
    rng.shuffle(frames)


def _change(rng: random.Random, frames: list[Frame], stream: int) -> None:
    at, keep = rng.randrange(len(frames)), rng.randrange(4)
    both = zip(_a_frame(rng, stream), frames[at], strict=True)
    frames[at] = tuple(  # type: ignore[assignment]
        new if part == keep else old for part, (new, old) in enumerate(both)
    )


def _pad(rng: random.Random, frames: list[Frame], stream: int) -> None:
    at, padding = rng.randrange(len(frames)), rng.choice((0, 1, 3, 255))
    kind, flags, own, payload = frames[at]
    length = rng.choice((padding, padding, 200))
    frames[at] = (kind, flags | 8, own, bytes([length]) + payload + bytes(padding))


def _continue(rng: random.Random, frames: list[Frame], stream: int) -> None:
    heads = [at for at, one in enumerate(frames) if one[0] == 1]
    if heads:
        at = rng.choice(heads)
        kind, flags, own, payload = frames[at]
        cut = rng.randrange(len(payload) + 1)
        frames[at : at + 1] = [(kind, flags & ~4, own, payload[:cut]), (9, 4, own, payload[cut:])]


_CHANGES: tuple[Callable[[random.Random, list[Frame], int], None], ...] = (
    _insert, _insert, _delete, _repeat, _swap, _change, _change, _pad, _continue, _continue,
)  # fmt: skip


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes changed, taken out, doubled or put in, without regard to frames."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 1, 2, 9))
        what = rng.randrange(5)
        if what == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif what == 1 and at < len(found):
            found[at] = rng.choice((0, 1, 4, 5, 0x20, 0x7F, 0x80, 0xFF))
        elif what == 2:
            del found[at : at + size]
        elif what == 3:
            found[at:at] = found[at : at + size]
        else:
            found[at:at] = rng.randbytes(size)
    return bytes(found)


# --- three clients: what each makes of the answers, a message or why there is none, one for each
# call until the first that fails


class Scripted:
    """Stands for a connection: gives the answer to each request, and is closed after the last."""

    def __init__(self, answers: Answers, most_bytes: int) -> None:
        self._answers, self._most_bytes = list(answers), most_bytes
        self._there, self._waits = b"", True

    def settimeout(self, seconds: float) -> None:
        self._waits = seconds > 0

    def sendall(self, data: bytes) -> None:
        if data[3:4] == b"\1" or data.startswith(b"PRI"):  # a call, and no acknowledgement
            self._there += self._answers.pop(0)

    def recv(self, most_bytes: int) -> bytes:
        if not (self._there or self._waits):
            raise BlockingIOError
        size = min(most_bytes, self._most_bytes)
        piece, self._there = self._there[:size], self._there[size:]
        return piece

    def close(self) -> None:
        """Nothing is open."""


_ERRORS: tuple[type[Exception], ...] = (UnexpectedAnswerError, NotTakenError, BrokenOffError)
_ERRORS += (grpc_connection.CallFailedError, grpc_connection.UnsupportedError)


def by_ours(answers: Answers, most_bytes: int = 1 << 20) -> Replies:
    scripted = Scripted(answers, most_bytes)
    with mock.patch.object(frames, "open_connection", return_value=scripted):
        connection = grpc_connection.GrpcConnection(1, MANY_SECONDS)
    deadline = time.monotonic() + 60
    found: Replies = []
    for number in range(len(answers)):
        try:
            if number and not connection.is_ready(b"", deadline):
                return [*found, "not ready"]
            code, _, reply = connection.call("/s/m", b"", deadline)
        except _ERRORS as error:
            return [*found, f"{type(error).__name__} {error}"]
        if code:
            return [*found, f"status {code}"]
        found.append(reply)
    return found


_CALL = [(":method", "POST"), (":scheme", "http"), (":path", "/s/m"), (":authority", "x")]


def by_h2(answers: Answers) -> Replies:
    config = h2.config.H2Configuration(client_side=True, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    connection.increment_flow_control_window(1 << 24)  # as ours
    found: Replies = []
    left, going_away = b"", False
    for number, answer in enumerate(answers):
        stream = 2 * number + 1
        # h2 takes no frame at all behind a GOAWAY; by RFC 9113, 6.8, calls begun go on to their end.
        kept, away = _without_goaway(answer, stream)
        try:
            if going_away:
                return [*found, "going away"]
            going_away = away
            connection.receive_data(left)
            connection.send_headers(stream, _CALL, end_stream=True)
            reply, left = _h2_reply(connection, stream, kept)
        except Exception as error:  # whatever the library says of it
            return [*found, f"{type(error).__name__} {error}"]
        found.append(reply)
        if isinstance(reply, str):
            break
    return found


def _split(data: bytes) -> Iterator[bytes]:
    """Frame by frame; the last may be cut off."""
    while data:
        size = 9 + int.from_bytes(data[:3], "big")
        yield data[:size]
        data = data[size:]


def _without_goaway(answer: bytes, stream: int) -> tuple[bytes, bool]:
    """Without the well-formed ones that leave this stream alone; whether there were any."""
    frames = [*_split(answer)]
    kept = []
    for one in frames:
        whole = len(one) == 9 + int.from_bytes(one[:3], "big") >= 17
        last = int.from_bytes(one[9:13], "big") & ((1 << 31) - 1)
        if one[3:9] != b"\7\0\0\0\0\0" or not whole or last < stream:
            kept.append(one)
    return b"".join(kept), len(kept) < len(frames)


def _h2_reply(connection: Any, stream: int, answer: bytes) -> tuple[bytes | str, bytes]:
    """The message; and what came behind the answer."""
    status, data, code = b"", b"", b""
    while answer:
        size = 9 + int.from_bytes(answer[:3], "big")
        events, answer = connection.receive_data(answer[:size]), answer[size:]
        for event in events:
            ended = isinstance(event, h2.events.ConnectionTerminated)
            if ended and (event.last_stream_id or 0) < stream:
                return "going away", answer
            if getattr(event, "stream_id", stream) != stream:
                continue
            if isinstance(event, h2.events.ResponseReceived):
                status = dict(event.headers)[b":status"]
            elif isinstance(event, h2.events.DataReceived):
                data += event.data
            elif isinstance(event, h2.events.TrailersReceived):
                code = dict(event.headers).get(b"grpc-status", b"")
            elif isinstance(event, h2.events.StreamReset):
                return f"reset {event.error_code}", answer
            elif isinstance(event, h2.events.StreamEnded):
                right = (status, code, data[:1]) == (b"200", b"0", b"\0")
                if right and int.from_bytes(data[1:5], "big") == len(data) - 5:
                    return data[5:], answer
                return f"HTTP {status!r}, gRPC {code!r}, {len(data)} bytes", answer
    return "no end", answer


def by_grpcio(answers: Answers, seconds_for_last: float) -> Replies:
    """It waits for ever where a second message follows, and behind some other last answers."""
    found: Replies = []
    first, rest = answers[0], b""
    # grpcio makes no call before it has the server's settings.
    if first[3:5] == b"\4\0":
        size = 9 + int.from_bytes(first[:3], "big")
        first, rest = first[:size], first[size:]
    # A port for each script: a channel that was closed may still be about to connect once more.
    port, _ = answering_calls(rest, *answers[1:], first=first)
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        call = channel.unary_unary("/s/m")
        for number in range(1, len(answers) + 1):
            seconds = seconds_for_last if number == len(answers) else 20
            try:
                found.append(call(b"", timeout=seconds))
            except grpc.RpcError as error:
                found.append(f"{error.code().name} {error.details()}"[:200])
                break
    return found


def readable_by_grpcio(answers: Answers) -> Answers:
    """Those before the first with an error code that HTTP/2 does not have: it ends grpcio's process.

    grpcio 1.85.1, "http2_status.h: UNREACHABLE CODE", for a GOAWAY frame with the code 0x35363738.
    """
    for count in range(len(answers), 0, -1):
        errors = [one for one in _split(b"".join(answers[:count])) if one[3:4] in (b"\3", b"\7")]
        codes = (one[13:17] if one[3:4] == b"\7" else one[9:13] for one in errors)
        if all(int.from_bytes(code, "big") <= 13 for code in codes):
            return answers[:count]
    return []


class Findings:
    """What came of many scripts."""

    def __init__(self) -> None:
        self.taken = 0
        """Answers that ours took."""
        self.slowest_seconds = 0.0
        """CPU time of ours for one script."""
        self.wrong: list[str] = []
        """Where ours took an answer that is none for another client, or another one."""
        self.stricter = Counter[str]()
        """Why ours refused what grpcio took."""

    def add(self, seed: int, *, with_grpcio: bool = True) -> None:
        """One script, read by ours, h2 and grpcio."""
        rng = random.Random(seed)
        given, most_bytes = answers(rng), rng.choice((1 << 20, 1 << 20, 100, 7))
        began = time.process_time()
        ours = by_ours(given, most_bytes)
        self.slowest_seconds = max(self.slowest_seconds, time.process_time() - began)
        self.taken += sum(isinstance(reply, bytes) for reply in ours)
        given = given[: len(ours)]
        self._compare(seed, ours, "h2", by_h2(given))
        if not with_grpcio:
            return
        given = readable_by_grpcio(given)
        refused = isinstance(ours[-1], str)
        only_counted = refused and len(given) == len(ours)
        theirs: Replies = []
        for _ in range(3):
            theirs = by_grpcio(given, 0.2 if only_counted else 20) if given else []
            if _first_difference(ours[: len(given)], theirs) is None:
                break  # else it may have met the port of another channel, closed a moment ago
        self._compare(seed, ours[: len(given)], "grpcio", theirs)
        if refused and len(theirs) == len(ours) and isinstance(theirs[-1], bytes):
            self.stricter[str(ours[-1])[:70]] += 1

    def _compare(self, seed: int, ours: Replies, name: str, theirs: Replies) -> None:
        at = _first_difference(ours, theirs)
        if at is not None:
            read = f"ours {_shown(ours)}, {name} {_shown(theirs)}"
            self.wrong.append(f"seed {seed}, call {at}: {read}")


def _first_difference(ours: Replies, theirs: Replies) -> int | None:
    """The first call for which ours took an answer that the other client did not, or read otherwise."""
    for at, reply in enumerate(ours):
        if isinstance(reply, bytes) and (at >= len(theirs) or theirs[at] != reply):
            return at
    return None


def main(count: int, seed: int) -> int:
    findings = Findings()
    for one in range(seed, seed + count):
        findings.add(one)
    print(f"{count:,} scripts, {findings.taken:,} answers taken by ours")
    print(f"read otherwise by h2 or grpcio: {len(findings.wrong)}", *findings.wrong[:50], sep="\n")
    print(f"slowest script by ours: {findings.slowest_seconds:.3f} CPU-s")
    print("refused by ours, taken by grpcio:", *findings.stricter.most_common(), sep="\n")
    return 1 if findings.wrong else 0


def _shown(replies: Replies) -> list[str]:
    return [reply if isinstance(reply, str) else f"{len(reply)} bytes" for reply in replies]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
