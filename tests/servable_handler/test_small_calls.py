"""transport/channels.py against gRPC's own server, and against servers that say odd things."""

import json
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
from hypothesis import given

from servable_handler.request import RequestError
from servable_handler.transport.channels import MOST_BYTES, SmallCalls
from servable_handler.transport.http2.frames import UnexpectedAnswerError, read_headers
from servable_handler.transport.http2.grpc_connection import (
    CallFailedError,
    GrpcConnection,
    UnsupportedError,
)
from servable_handler.transport.model_servers import ModelServers
from servable_handler.transport.rest import BrokenOffError, DeadlineError, NotTakenError
from tests.servable_handler.fake_model_server import FakeModelServer
from tests.servable_handler.http2_bytes import (
    DATA,
    HEADERS,
    OPENING,
    SETTINGS,
    STATUS,
    TRAILERS,
    frame,
    hpack_number,
    literal,
    whole,
)
from tests.servable_handler.raw_server import RawServer, answering_calls
from tests.servable_handler.test_model_servers import call, free_port


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def asked(
    calls: SmallCalls, port: int, body: bytes = b"", method: str = "Regress", seconds: float = 20.0
) -> bytes:
    return calls.call(port, method, body, model="m", deadline=soon(seconds))


def test_bytes_of_any_size_go_over_one_connection(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = SmallCalls()
    for size in [0, 1, 127, 2_000, *[MOST_BYTES] * 100]:
        body = (bytes(range(256)) * (size // 256 + 1))[:size]
        assert asked(calls, server.grpc_port, body) == body
    # A refusal keeps the connection too.
    with pytest.raises(CallFailedError) as raised:
        asked(calls, server.grpc_port, method="GetModelMetadata")
    assert (raised.value.code, raised.value.message) == (5, "Servable not found for request")
    assert len(calls._idle[server.grpc_port]) == 1
    monkeypatch.setattr(server, "grpc_answer", lambda *_: bytes(9_000_000))
    assert len(asked(SmallCalls(), server.grpc_port)) == 9_000_000


def test_calls_at_once_do_not_mix(server: FakeModelServer) -> None:
    calls, bodies = SmallCalls(), [str(number).encode() * 100 for number in range(100)]
    server.delay_seconds = 0.01
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda body: asked(calls, server.grpc_port, body), bodies)) == bodies


def test_a_server_that_is_slow_or_gone_is_told_apart_and_one_started_anew_is_reached() -> None:
    calls = SmallCalls()
    with FakeModelServer() as first:
        asked(calls, first.grpc_port)
        idle = calls._idle[first.grpc_port]
        first.delay_seconds = 1
        # The server is told of the deadline too, and may be the one to say so.
        with pytest.raises((DeadlineError, CallFailedError)):
            asked(SmallCalls(), first.grpc_port, seconds=0.2)
    with pytest.raises(NotTakenError):
        asked(SmallCalls(), free_port())
    with FakeModelServer() as second:
        calls._idle[second.grpc_port] = idle  # a connection whose other end is gone
        assert asked(calls, second.grpc_port, b"x") == b"x"


def answered(*frames: bytes, hold: bool = True, seconds: float = 5.0) -> tuple[int, bytes, bytes]:
    """What a call to a server that says this, whatever it hears, ends with."""

    def say(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"".join(frames))
        if not hold:
            connection.close()

    with RawServer(say) as server:
        return GrpcConnection(server.port, soon()).call("/x", b"", soon(seconds))


@pytest.mark.parametrize("frames", [
    [HEADERS, DATA, TRAILERS],
    [HEADERS, frame(6, 0, 0, b"12345678"), DATA, TRAILERS],
    [HEADERS, frame(0, 0, 1, b"\0\0\0\0\x02o"), frame(0, 0, 1, b"k"), TRAILERS],
    [frame(1, 4, 1, b"\x20" + OPENING + literal(b"x", b"y")), DATA, TRAILERS],
    [frame(1, 4, 1, b"\x88\x5f\x10application/grpc\x40\1x\1y"), DATA, TRAILERS],
    [frame(1, 4, 1, b"\x48\x03200" + OPENING[1:]), DATA, TRAILERS],
    [frame(1, 4, 1, literal(b":status", b"200") + OPENING[1:]), DATA, TRAILERS],
    [HEADERS, frame(7, 0, 0, struct.pack(">II", 1, 0)), DATA, TRAILERS],
    [HEADERS, frame(8, 0, 0, b"\0\0\1\0"), frame(8, 0, 1, b"\0\0\1\0"), DATA, TRAILERS],
    [frame(1, 0, 1, b""), frame(9, 0, 1, OPENING), frame(9, 4, 1, b""), DATA, TRAILERS],
    [HEADERS, DATA, frame(1, 1, 1, STATUS[:6]), frame(9, 4, 1, STATUS[6:])],
    [HEADERS, frame(0, 0, 1, b""), DATA, frame(99, 0, 1, b"new"), TRAILERS],
    [frame(4, 1, 0, b""), frame(4, 0, 0, struct.pack(">HIHI", 4, 10, 9, 9)), HEADERS,
     DATA, TRAILERS],
])  # fmt: skip
def test_what_a_grpc_server_may_send_is_understood(frames: list[bytes]) -> None:
    assert answered(SETTINGS, *frames) == (0, b"", b"ok")


BLOCKS = {
    "another status": b"\x8d",
    "a status that is no number": b"\x08\x03abc" + OPENING[1:],
    "no status": OPENING[1:],
    "two statuses": b"\x88" + OPENING,
    "a status after a header": OPENING[1:] + b"\x88",
    "an unknown pseudo-header": OPENING + literal(b":new", b"x"),
    "a request's pseudo-header": OPENING + b"\x83",
    "no content type": b"\x88",
    "another content type": b"\x88\x0f\x10\x09text/html",
    "a content type twice": OPENING + OPENING[1:],
    "index 0": OPENING + b"\x80",
    "index 62": OPENING + b"\xbe",
    "index 62 as a name": OPENING + hpack_number(0, 4, 62) + b"\1x",
    "an index of 70 bits": OPENING + b"\xff" + b"\xff" * 9 + b"\1",
    "an index that is written longer": OPENING + b"\x0f\x90\x00\x01x",
    "a length beyond the block": OPENING + b"\x00\x7f",
    "a value beyond the block": OPENING + b"\x00\x01a\x05xyz",
    "a length of 50 bits": OPENING + b"\x00\x01a\x7f" + b"\xff" * 6 + b"\1",
    "a name of no letters": OPENING + literal(b"", b"x"),
    "a capital in a name": OPENING + literal(b"Name", b"x"),
    "a line break in a value": OPENING + literal(b"name", b"a\nb"),
    "a binary header": OPENING + literal(b"x-bin", b"YQ"),
    "Huffman's code": b"\x88\x5f\x8b\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x4d\x65\x64",
    "a size of the table": OPENING + b"\x20",
    "a table that is not empty": b"\x3f\x01" + OPENING,
    "a connection's header": OPENING + literal(b"connection", b"close"),
    "a status of the call": OPENING + STATUS,
    "an unknown encoding": OPENING + literal(b"grpc-encoding", b"zstd"),
    "more headers than grpcio takes": OPENING + b"".join(
        literal(b"name%03d" % n, b"x" * 40) for n in range(110)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_a_header_block_that_grpcs_server_does_not_send_is_not_understood(name: str) -> None:
    answer = [SETTINGS, frame(1, 4, 1, BLOCKS[name]), DATA, TRAILERS]
    with pytest.raises(UnexpectedAnswerError):
        answered(*answer)


ODD: dict[str, list[bytes]] = {
    "no settings": [HEADERS, DATA, TRAILERS],
    "acknowledged first": [frame(4, 1, 0, b""), HEADERS, DATA, TRAILERS],
    "acknowledged twice": [SETTINGS, *[frame(4, 1, 0, b"")] * 2, HEADERS, DATA, TRAILERS],
    "acknowledged with settings": [SETTINGS, frame(4, 1, 0, bytes(6)), HEADERS, DATA, TRAILERS],
    "settings of a call": [SETTINGS, frame(4, 0, 1, b""), HEADERS, DATA, TRAILERS],
    "settings cut off": [frame(4, 0, 0, bytes(5)), HEADERS, DATA, TRAILERS],
    "a window of 2^31": [frame(4, 0, 0, b"\0\4\x80\0\0\0"), HEADERS, DATA, TRAILERS],
    "frames of 1 byte": [frame(4, 0, 0, b"\0\5\0\0\0\1"), HEADERS, DATA, TRAILERS],
    "pushes": [frame(4, 0, 0, b"\0\2\0\0\0\1"), HEADERS, DATA, TRAILERS],
    "a window that grows by 0": [SETTINGS, frame(8, 0, 0, bytes(4)), HEADERS, DATA, TRAILERS],
    "a window too large": [SETTINGS, frame(8, 0, 0, b"\x7f\xff\xff\xff"), HEADERS, DATA, TRAILERS],
    "a call's window too large": [SETTINGS, frame(8, 0, 1, b"\x7f\xff\xff\xff"), HEADERS, DATA, TRAILERS],
    "a window of 3 bytes": [SETTINGS, frame(8, 0, 0, b"\0\0\1"), HEADERS, DATA, TRAILERS],
    "a window with flags": [SETTINGS, frame(8, 1, 0, b"\0\0\1\0"), HEADERS, DATA, TRAILERS],
    "a window of no call": [SETTINGS, frame(8, 0, 3, b"\0\0\1\0"), HEADERS, DATA, TRAILERS],
    "a ping of 7 bytes": [SETTINGS, frame(6, 0, 0, bytes(7)), HEADERS, DATA, TRAILERS],
    "a ping of a call": [SETTINGS, frame(6, 0, 1, bytes(8)), HEADERS, DATA, TRAILERS],
    "a reset of 3 bytes": [SETTINGS, frame(3, 0, 1, bytes(3)), HEADERS, DATA, TRAILERS],
    "a reset of no call": [SETTINGS, frame(3, 0, 7, bytes(4)), HEADERS, DATA, TRAILERS],
    "going away, cut off": [SETTINGS, frame(7, 0, 0, bytes(7)), HEADERS, DATA, TRAILERS],
    "a priority": [SETTINGS, frame(2, 0, 1, bytes(5)), HEADERS, DATA, TRAILERS],
    "a push": [SETTINGS, frame(5, 4, 1, bytes(4)), HEADERS, DATA, TRAILERS],
    "continued without headers": [SETTINGS, frame(9, 4, 1, OPENING), HEADERS, DATA, TRAILERS],
    "headers not continued": [SETTINGS, frame(1, 0, 1, OPENING), DATA, TRAILERS],
    "continued by another call": [SETTINGS, frame(1, 0, 1, OPENING), frame(9, 4, 3, b""), DATA, TRAILERS],
    "continued without end": [SETTINGS, frame(1, 0, 1, b""), *[frame(9, 0, 1, bytes(16_000))] * 5],
    "a block beyond 64 KiB": [SETTINGS, frame(1, 4, 1, OPENING + bytes(1 << 16)), DATA, TRAILERS],
    "padded data": [SETTINGS, HEADERS, frame(0, 8, 1, b"\3\0\0\0\0\2ok..."), TRAILERS],
    "padded headers": [SETTINGS, frame(1, 0xC, 1, b"\0" + OPENING), DATA, TRAILERS],
    "headers with a priority": [SETTINGS, frame(1, 0x24, 1, bytes(5) + OPENING), DATA, TRAILERS],
    "data before headers": [SETTINGS, DATA, HEADERS, TRAILERS],
    "data of the connection": [SETTINGS, HEADERS, frame(0, 0, 0, DATA[9:]), TRAILERS],
    "data of another call": [SETTINGS, HEADERS, frame(0, 0, 3, b"x"), DATA, TRAILERS],
    "headers of the connection": [SETTINGS, frame(1, 4, 0, OPENING), DATA, TRAILERS],
    "data that ends the answer": [SETTINGS, HEADERS, frame(0, 1, 1, DATA[9:]), TRAILERS],
    "headers twice": [SETTINGS, HEADERS, HEADERS, DATA, TRAILERS],
    "trailers that end nothing": [SETTINGS, HEADERS, DATA, frame(1, 4, 1, STATUS)],
    "trailers with an HTTP status": [SETTINGS, HEADERS, DATA, frame(1, 5, 1, b"\x88" + STATUS)],
    "no message": [SETTINGS, HEADERS, TRAILERS],
    "only trailers": [SETTINGS, frame(1, 5, 1, OPENING + STATUS)],
    "two messages": [SETTINGS, HEADERS, DATA, DATA, TRAILERS],
    "half a message": [SETTINGS, HEADERS, frame(0, 0, 1, DATA[9:-1]), TRAILERS],
    "a message and a byte": [SETTINGS, HEADERS, frame(0, 0, 1, DATA[9:] + b"x"), TRAILERS],
    "half a prefix": [SETTINGS, HEADERS, frame(0, 0, 1, DATA[9:12]), TRAILERS],
    "a compressed message": [SETTINGS, HEADERS, frame(0, 0, 1, b"\1\0\0\0\2ok"), TRAILERS],
    "a message of 4 GiB": [SETTINGS, HEADERS, frame(0, 0, 1, b"\0\xff\xff\xff\xffok"), TRAILERS],
    "refused after it began": [SETTINGS, HEADERS, frame(3, 0, 1, b"\0\0\0\7")],
    "pings without end": [SETTINGS, *[frame(6, 0, 0, bytes(8))] * 1_001, HEADERS, DATA, TRAILERS],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_answer_that_no_grpc_server_gives_is_not_understood(name: str) -> None:
    with pytest.raises(UnexpectedAnswerError):
        answered(*ODD[name])


@pytest.mark.parametrize("code", [b"", b"x", b"-1", b"+1", b"1.0", b"00", b"1000", b"9" * 5_000])
def test_a_grpc_status_that_is_none_is_an_internal_error_of_the_call(code: bytes) -> None:
    status = b"\x00\x0bgrpc-status" + hpack_number(0, 7, len(code)) + code
    with pytest.raises(CallFailedError, match="gRPC status") as raised:
        answered(SETTINGS, HEADERS, DATA, frame(1, 5, 1, status))
    assert raised.value.code == 13


@pytest.mark.parametrize(("frames", "kind"), [
    ([frame(3, 0, 1, b"\0\0\0\1")], CallFailedError),
    ([frame(3, 0, 1, b"\0\0\0\7")], NotTakenError),
    ([frame(7, 0, 0, struct.pack(">II", 0, 0))], NotTakenError),
    ([HEADERS], (BrokenOffError, ConnectionResetError)),
])  # fmt: skip
def test_how_a_call_ends_without_an_answer_is_told_apart(
    frames: list[bytes], kind: type[Exception] | tuple[type[Exception], ...]
) -> None:
    with pytest.raises(kind):
        answered(SETTINGS, *frames, hold=False)


def test_a_server_is_tried_first_and_a_call_that_it_began_is_not_sent_again() -> None:
    port, heard = answering_calls(SETTINGS + frame(1, 5, 1, b"\x8d"))
    with pytest.raises(UnsupportedError):
        asked(SmallCalls(), port, b"a request", "Predict")
    assert (len(heard), b"a request" in heard[0]) == (1, False)

    port, heard = answering_calls(whole(1), frame(1, 4, 3, OPENING))
    with pytest.raises(BrokenOffError, match="was closed"):
        asked(SmallCalls(), port, b"", "Predict")
    assert len(heard) == 2


@pytest.mark.parametrize(("key", "value"), [(4, 100), (3, 0), (6, 100)])
def test_settings_that_leave_no_room_are_said_before_anything_is_sent(key: int, value: int) -> None:
    settings = frame(4, 0, 0, struct.pack(">HIHI", key, value, 9, 9))
    port, heard = answering_calls(whole(1).replace(SETTINGS, settings), b"")
    with pytest.raises(UnsupportedError, match="the server's HTTP/2 settings don't allow a call"):
        asked(SmallCalls(), port, bytes(200), "Predict")
    assert b"Predict" not in b"".join(heard)


def test_a_connection_is_given_up_before_its_window_for_answers_ends(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "servable_handler.transport.http2.grpc_connection._MOST_RECEIVED_BYTES", 5_000
    )
    calls = SmallCalls()
    kept = []
    for _ in range(3):
        asked(calls, server.grpc_port, bytes(2_000))
        kept.append(len(calls._idle[server.grpc_port]))
    assert kept == [1, 1, 0]


@pytest.mark.parametrize("options", [
    {"grpc.http2.lookahead_bytes": 1_000, "grpc.http2.bdp_probe": 0},
    {"grpc.http2.max_frame_size": 16_384},
    {"grpc.http2.hpack_table_size.encoder": 0},
    {"grpc.max_concurrent_streams": 1},
    {"grpc.max_connection_age_ms": 30, "grpc.max_connection_age_grace_ms": 1_000},
    {"grpc.max_connection_idle_ms": 5},
    {"grpc.keepalive_time_ms": 10, "grpc.keepalive_permit_without_calls": 1},
    {"grpc.max_metadata_size": 600, "grpc.absolute_max_metadata_size": 1_200},
    {"grpc.default_compression_algorithm": 2, "grpc.default_compression_level": 3},
], ids=lambda options: next(iter(options)).removeprefix("grpc."))  # fmt: skip
def test_whatever_the_servers_settings_no_call_is_lost_or_doubled(options: dict[str, int]) -> None:
    with FakeModelServer(options) as server:
        one = ModelServers((server.grpc_port,), (server.rest_port,))
        bodies = [str(number).encode() * 1_000 for number in range(60)]
        answers, unknown = [], []
        for body in bodies:
            try:
                answers.append(one.call_grpc("Regress", body, call()))
            except RequestError as refusal:
                # The server closed the connection while the request was being written.
                unknown.append((body, "the request may have run" in refusal.message))
            time.sleep(0.002)
        # A call that gRPC's server goes away from before its message reaches gRPC's Python as b"".
        executed = [body for _, body in server.requests if body]
        assert answers == [body for body in bodies if (body, True) not in unknown]
        assert [body for body in executed if (body, True) not in unknown] == answers
        assert len(executed) == len(set(executed))
        assert not unknown or "grpc.max_connection_idle_ms" in options


def test_what_is_not_understood_goes_over_grpcio_from_then_on(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def odd(self: SmallCalls, port: int, method: str, *_: object, **__: object) -> bytes:
        asked.append(method)
        raise UnsupportedError("a novelty")

    monkeypatch.setattr(SmallCalls, "call", odd)
    one = ModelServers((server.grpc_port,), (server.rest_port,))
    answers = [one.call_grpc("Regress", b"x", call()) for _ in range(3)]
    assert (answers, asked) == ([b"x"] * 3, ["Regress"])


def test_an_answer_not_understood_is_500_and_its_request_is_not_sent_again(
    server: FakeModelServer,
) -> None:
    odd, heard = answering_calls(whole(1), frame(1, 4, 3, b"\x8d"))
    one = ModelServers((odd, server.grpc_port), (server.rest_port,) * 2)
    one._choice.take = lambda avoid=None: 0  # type: ignore[method-assign]
    with pytest.raises(RequestError, match="isn't supported") as raised:
        one.call_grpc("Regress", b"first", call())
    one._choice.take = lambda avoid=None: 1  # type: ignore[method-assign]
    assert one.call_grpc("Regress", b"second", call()) == b"second"
    found = (raised.value.status, len(heard), server.requests, one._small)
    assert found == (500, 2, [("Regress", b"second")], None)


def test_a_larger_message_goes_over_grpcio(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmallCalls, "call", None)
    body = bytes(MOST_BYTES + 1)
    one = ModelServers((server.grpc_port,), (server.rest_port,))
    assert one.call_grpc("Regress", body, call()) == body


@given(st.binary(max_size=60))
def test_any_headers_are_read_or_not_understood(block: bytes) -> None:
    try:
        read_headers(block)
    except UnexpectedAnswerError:
        return


@pytest.mark.parametrize(("third", "heard"), [
    (whole(5, message=b"no"), (0, b"", b"no")),
    (whole(5, status=b"7"), (7, b"", b"")),
    (whole(5, message=b"longer"), (0, b"", b"longer")),
    (SETTINGS + whole(5, message=b"no"), (0, b"", b"no")),
], ids=["same form", "refused", "longer", "settings first"])  # fmt: skip
def test_after_answers_of_one_form_another_one_is_still_read(
    third: bytes, heard: tuple[int, bytes, bytes]
) -> None:
    port, _ = answering_calls(whole(1), whole(3), third)
    connection = GrpcConnection(port, soon())
    answers = [connection.call("/s/m", b"", soon()) for _ in range(3)]
    connection.close()
    assert answers == [(0, b"", b"ok"), (0, b"", b"ok"), heard]


@pytest.mark.long
def test_calls_under_gevent_wait_side_by_side_and_end_at_their_deadlines() -> None:
    code = (
        "import gevent.monkey\ngevent.monkey.patch_all()\n"
        "from tests.servable_handler.under_gevent import main\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert json.loads(ran.stdout) == {
        "answers": ["x", "x"],
        "later deadline first": ["too late", "too late"],
        "closed": "unreachable",
        "more than buffers hold": "all",
        "never read": "too late",
        "one after the other": ["1", "2"],
    }
