"""transport/channels.py against gRPC's own server, and against servers that say odd things."""

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
from hypothesis import given

from servable_handler.request import RequestError
from servable_handler.transport.channels import MOST_BYTES, SmallCalls
from servable_handler.transport.http2.grpc_connection import (
    CallFailedError,
    GrpcConnection,
    UnsupportedError,
)
from servable_handler.transport.http2.hpack import UnexpectedAnswerError, read_headers
from servable_handler.transport.model_servers import ModelServers
from servable_handler.transport.rest import BrokenOffError, DeadlineError, NotTakenError
from tests.servable_handler.fake_model_server import FakeModelServer
from tests.servable_handler.test_model_servers import call


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize("size", [0, 1, 127, 2_000, MOST_BYTES])
def test_bytes_of_any_small_size_come_back(size: int, server: FakeModelServer) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    assert (
        SmallCalls().call(server.grpc_port, "Regress", body[:size], model="m", deadline=soon())
        == (body[:size])
    )


def test_more_than_every_window_goes_over_one_connection(server: FakeModelServer) -> None:
    calls = SmallCalls()
    for _ in range(100):
        calls.call(server.grpc_port, "Regress", bytes(MOST_BYTES), model="m", deadline=soon())
    assert len(calls._idle[server.grpc_port]) == 1


def test_a_large_answer_to_a_small_request_comes_back(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "grpc_answer", lambda *_: bytes(9_000_000))
    assert (
        len(SmallCalls().call(server.grpc_port, "Regress", b"", model="m", deadline=soon()))
        == 9_000_000
    )


def test_calls_at_once_do_not_mix(server: FakeModelServer) -> None:
    calls = SmallCalls()
    server.delay_seconds = 0.01

    def one(number: int) -> bool:
        body = str(number).encode() * 100
        return calls.call(server.grpc_port, "Regress", body, model="m", deadline=soon()) == body

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(100)))


def test_a_refusal_has_code_and_message_and_keeps_the_connection(server: FakeModelServer) -> None:
    with pytest.raises(CallFailedError) as raised:
        SmallCalls().call(server.grpc_port, "GetModelMetadata", b"", model="m", deadline=soon())
    assert (raised.value.code, raised.value.message) == (5, "Servable not found for request")

    calls = SmallCalls()
    with pytest.raises(CallFailedError):
        calls.call(server.grpc_port, "GetModelMetadata", b"", model="m", deadline=soon())
    assert len(calls._idle[server.grpc_port]) == 1


def test_the_deadline_is_kept(server: FakeModelServer) -> None:
    server.delay_seconds = 1
    # The server is told of it too, and may be the one to say so.
    with pytest.raises((DeadlineError, CallFailedError)):
        SmallCalls().call(server.grpc_port, "Regress", b"", model="m", deadline=soon(0.2))


def test_where_nobody_listens_the_request_was_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(NotTakenError):
        SmallCalls().call(port, "Regress", b"", model="m", deadline=soon())


def test_a_server_that_was_started_anew_is_reached() -> None:
    calls = SmallCalls()
    with FakeModelServer() as first:
        calls.call(first.grpc_port, "Regress", b"", model="m", deadline=soon())
        idle = calls._idle[first.grpc_port]
    with FakeModelServer() as second:
        calls._idle[second.grpc_port] = idle  # a connection whose other end is gone
        assert calls.call(second.grpc_port, "Regress", b"x", model="m", deadline=soon()) == b"x"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    )


def literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


OPENING = b"\x88\x0f\x10\x10application/grpc"
HEADERS = frame(1, 4, 1, OPENING)
DATA = frame(0, 0, 1, b"\0\0\0\0\x02ok")
STATUS = literal(b"grpc-status", b"0")
TRAILERS = frame(1, 5, 1, STATUS)
SETTINGS = frame(4, 0, 0, b"")


def saying(*frames: bytes, hold: bool = True) -> int:
    """The port of a server that says this whatever it hears."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            connection.recv(1 << 16)
            connection.sendall(b"".join(frames))
            if not hold:
                connection.close()
            kept.append(connection)

    kept: list[socket.socket] = []
    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


@pytest.mark.parametrize(
    "frames",
    [
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
    ],
    ids=[
        "plain", "ping", "pieces", "table-emptied", "indexing", "status-written-out",
        "status-and-its-name-written-out", "going-away", "windows", "continued",
        "trailers-continued", "empty-and-unknown", "settings",
    ],
)  # fmt: skip
def test_what_a_grpc_server_may_send_is_understood(frames: list[bytes]) -> None:
    connection = GrpcConnection(saying(SETTINGS, *frames), soon())
    assert connection.call("/x", b"", soon()) == (0, b"", b"ok")


def number(first: int, bits: int, value: int) -> bytes:
    """HPACK's form of an integer, whose first byte has `first` above its bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    value, found = value - most, bytes([first | most])
    while value > 0x7F:
        value, found = value >> 7, found + bytes([value & 0x7F | 0x80])
    return found + bytes([value])


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
    "index 62 as a name": OPENING + number(0, 4, 62) + b"\1x",
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
        GrpcConnection(saying(*answer), soon()).call("/x", b"", soon(5))


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
        GrpcConnection(saying(*ODD[name]), soon()).call("/x", b"", soon(5))


@pytest.mark.parametrize("code", [b"", b"x", b"-1", b"+1", b"1.0", b"00", b"1000", b"9" * 5_000])
def test_a_grpc_status_that_is_none_is_an_internal_error_of_the_call(code: bytes) -> None:
    status = b"\x00\x0bgrpc-status" + number(0, 7, len(code)) + code
    with pytest.raises(CallFailedError, match="gRPC status") as raised:
        GrpcConnection(saying(SETTINGS, HEADERS, DATA, frame(1, 5, 1, status)), soon()).call(
            "/x", b"", soon(5)
        )
    assert raised.value.code == 13


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([frame(3, 0, 1, b"\0\0\0\1")], CallFailedError),
        ([frame(3, 0, 1, b"\0\0\0\7")], NotTakenError),
        ([frame(7, 0, 0, struct.pack(">II", 0, 0))], NotTakenError),
        ([HEADERS], (BrokenOffError, ConnectionResetError)),
    ],
)
def test_how_a_call_ends_without_an_answer_is_told_apart(
    frames: list[bytes], kind: type[Exception] | tuple[type[Exception], ...]
) -> None:
    with pytest.raises(kind):
        GrpcConnection(saying(SETTINGS, *frames, hold=False), soon()).call("/x", b"", soon(5))


@pytest.mark.parametrize("block", [b"\xff" * 100_000, b"\x00\x7f" + b"\xff" * 60_000])
def test_a_long_header_block_takes_no_time(block: bytes) -> None:
    before = time.process_time()
    with pytest.raises(UnexpectedAnswerError):
        GrpcConnection(saying(SETTINGS, frame(1, 4, 1, block)), soon()).call("/x", b"", soon(20))
    assert time.process_time() - before < 5  # 65 s before its length was bounded


def answering(*answers: list[bytes]) -> tuple[int, list[bytes]]:
    """The port of a server that says one of these to each call of its only connection and then
    hangs up, and what it hears; nobody takes another."""
    server = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        server.close()
        with connection:
            for said in answers:
                heard.append(b"")
                while (
                    b"grpc-timeout" not in heard[-1]
                ):  # the settings' acknowledgement comes before
                    piece = connection.recv(1 << 16)
                    if not piece:
                        return  # a thread that went on would take a core until the tests end
                    heard[-1] += piece
                connection.sendall(b"".join(said))

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1]), heard


def answer_of(stream: int) -> list[bytes]:
    frames = [one[:8] + bytes([stream]) + one[9:] for one in (HEADERS, DATA, TRAILERS)]
    return [SETTINGS, *frames] if stream == 1 else frames


def test_a_server_is_tried_first_and_a_call_that_it_began_is_not_sent_again() -> None:
    port, heard = answering([SETTINGS, frame(1, 5, 1, b"\x8d")])
    with pytest.raises(UnsupportedError):
        SmallCalls().call(port, "Predict", b"a request", model="m", deadline=soon())
    assert (len(heard), b"a request" in heard[0]) == (1, False)

    port, heard = answering(answer_of(1), [answer_of(3)[0]])
    with pytest.raises(BrokenOffError, match="was closed"):
        SmallCalls().call(port, "Predict", b"", model="m", deadline=soon())
    assert len(heard) == 2


@pytest.mark.parametrize(("key", "value"), [(4, 100), (3, 0), (6, 100)])
def test_settings_that_leave_no_room_are_said_before_anything_is_sent(key: int, value: int) -> None:
    settings = frame(4, 0, 0, struct.pack(">HIHI", key, value, 9, 9))
    port, heard = answering([settings, *answer_of(1)[1:]], [])
    with pytest.raises(UnsupportedError, match="the server's HTTP/2 settings don't allow a call"):
        SmallCalls().call(port, "Predict", bytes(200), model="m", deadline=soon())
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
        calls.call(server.grpc_port, "Regress", bytes(2_000), model="m", deadline=soon())
        kept.append(len(calls._idle[server.grpc_port]))
    assert kept == [1, 1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"grpc.http2.lookahead_bytes": 1_000, "grpc.http2.bdp_probe": 0},
        {"grpc.http2.max_frame_size": 16_384},
        {"grpc.http2.hpack_table_size.encoder": 0},
        {"grpc.max_concurrent_streams": 1},
        {"grpc.max_connection_age_ms": 30, "grpc.max_connection_age_grace_ms": 1_000},
        {"grpc.max_connection_idle_ms": 5},
        {"grpc.keepalive_time_ms": 10, "grpc.keepalive_permit_without_calls": 1},
        {"grpc.max_metadata_size": 600, "grpc.absolute_max_metadata_size": 1_200},
        {"grpc.default_compression_algorithm": 2, "grpc.default_compression_level": 3},
    ],
    ids=lambda options: next(iter(options)).removeprefix("grpc."),
)  # fmt: skip
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
    odd, heard = answering(answer_of(1), [frame(1, 4, 3, b"\x8d")])
    one = ModelServers((odd, server.grpc_port), (server.rest_port,) * 2)
    one._choice.take = lambda avoid=None: 0  # type: ignore[method-assign]
    with pytest.raises(RequestError, match="isn't supported") as raised:
        one.call_grpc("Regress", b"first", call())
    one._choice.take = lambda avoid=None: 1  # type: ignore[method-assign]
    assert one.call_grpc("Regress", b"second", call()) == b"second"
    assert (raised.value.status, len(heard), server.requests, one._small) == (
        500,
        2,
        [("Regress", b"second")],
        None,
    )


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


def whole(stream: int, *, message: bytes = b"ok", status: bytes = b"0") -> bytes:
    prefix = b"\0" + struct.pack(">I", len(message))
    return (
        (SETTINGS if stream == 1 else b"")
        + frame(1, 4, stream, OPENING)
        + frame(0, 0, stream, prefix + message)
        + frame(1, 5, stream, literal(b"grpc-status", status))
    )


@pytest.mark.parametrize(
    ("third", "heard"),
    [
        (whole(5, message=b"no"), (0, b"", b"no")),
        (whole(5, status=b"7"), (7, b"", b"")),
        (whole(5, message=b"longer"), (0, b"", b"longer")),
        (SETTINGS + whole(5, message=b"no"), (0, b"", b"no")),
    ],
    ids=["same form", "refused", "longer", "settings first"],
)
def test_after_answers_of_one_form_another_one_is_still_read(
    third: bytes, heard: tuple[int, bytes, bytes]
) -> None:
    port, _ = answering([whole(1)], [whole(3)], [third])
    connection = GrpcConnection(port, soon())
    answers = [connection.call("/s/m", b"", soon()) for _ in range(3)]
    connection.close()
    assert answers == [(0, b"", b"ok"), (0, b"", b"ok"), heard]
