"""serving/small_calls.py against gRPC's own server, and against servers that say odd things."""

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
from hypothesis import given

from serving.grpc_connection import Failed, GrpcConnection, NotTaken
from serving.hpack import Unexpected, fields
from serving.model_servers import ModelServers
from serving.rest import TooLate, Unreachable
from serving.small_calls import MOST_BYTES, SmallCalls
from tests.serving.fake_model_server import FakeModelServer
from tests.serving.test_model_servers import call


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


def test_a_refusal_has_code_and_message(server: FakeModelServer) -> None:
    with pytest.raises(Failed) as raised:
        SmallCalls().call(server.grpc_port, "GetModelMetadata", b"", model="m", deadline=soon())
    assert (raised.value.code, raised.value.message) == (5, "Servable not found for request")


def test_a_refusal_keeps_the_connection(server: FakeModelServer) -> None:
    calls = SmallCalls()
    with pytest.raises(Failed):
        calls.call(server.grpc_port, "GetModelMetadata", b"", model="m", deadline=soon())
    assert len(calls._idle[server.grpc_port]) == 1


def test_the_deadline_is_kept(server: FakeModelServer) -> None:
    server.delay_seconds = 1
    # The server is told of it too, and may be the one to say so.
    with pytest.raises((TooLate, Failed)):
        SmallCalls().call(server.grpc_port, "Regress", b"", model="m", deadline=soon(0.2))


def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(Unreachable):
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


HEADERS = frame(1, 4, 1, b"\x88")
DATA = frame(0, 0, 1, b"\0\0\0\0\x02ok")
TRAILERS = frame(1, 5, 1, literal(b"grpc-status", b"0"))
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
        [SETTINGS, HEADERS, DATA, TRAILERS],
        [HEADERS, frame(6, 0, 0, b"12345678"), DATA, TRAILERS],
        [HEADERS, frame(0, 0, 1, b"\0\0\0\0\x02o"), frame(0, 0, 1, b"k"), TRAILERS],
        [frame(1, 4, 1, b"\x20\x88" + literal(b"x", b"y")), DATA, TRAILERS],
        [HEADERS, DATA, frame(1, 5, 1, b"\x5f\x85\x1d\x75\xd0\x62\x0d" + literal(b"grpc-status", b"0"))],
        [HEADERS, frame(7, 0, 0, struct.pack(">II", 1, 0)), DATA, TRAILERS],
        [HEADERS, frame(8, 0, 0, b"\0\0\1\0"), frame(3, 0, 7, b"\0\0\0\1"), DATA, TRAILERS],
        [HEADERS, frame(0, 8, 1, b"\3\0\0\0\0\2ok..."), TRAILERS],
        [frame(1, 0x2C, 1, b"\1.....\x88."), DATA, TRAILERS],
        [frame(1, 0, 1, b""), frame(9, 0, 1, b"\x88"), frame(9, 4, 1, b""), DATA, TRAILERS],
        [HEADERS, DATA, frame(1, 1, 1, TRAILERS[9:15]), frame(9, 4, 1, TRAILERS[15:])],
        [HEADERS, frame(0, 0, 1, b""), DATA, frame(99, 0, 1, b"new"), TRAILERS],
        [SETTINGS, frame(4, 1, 0, b""), frame(4, 0, 0, struct.pack(">HIHI", 4, 10, 9, 9)), HEADERS,
         DATA, TRAILERS],
    ],
    ids=["plain", "ping", "pieces", "table-size", "coded-text", "going-away", "others", "padded",
         "padded-with-priority", "continued", "trailers-continued", "empty-and-unknown", "settings"],
)  # fmt: skip
def test_what_http_allows_is_understood(frames: list[bytes]) -> None:
    assert GrpcConnection(saying(*frames), soon()).call("/x", b"", soon()) == (0, b"", b"ok")


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([frame(1, 4, 1, b"\x8d")], Unexpected),
        ([frame(1, 0, 1, b"\x88"), DATA], Unexpected),
        ([frame(1, 0, 1, b"\x88"), frame(9, 4, 3, b"")], Unexpected),
        ([frame(1, 0, 1, b""), *[frame(9, 0, 1, bytes(16_000))] * 5], Unexpected),
        ([frame(1, 0xC, 1, b"\x02\x88")], Unexpected),
        ([frame(1, 0xC, 1, b"")], Unexpected),
        ([frame(1, 4, 1, b"\xbe")], Unexpected),
        ([HEADERS, DATA, frame(1, 5, 1, b"\x88")], Unexpected),
        ([HEADERS, TRAILERS], Unexpected),
        ([HEADERS, frame(0, 0, 1, b"\1\0\0\0\x02ok"), TRAILERS], Unexpected),
        ([frame(1, 4, 1, b"\x00\x7f")], Unexpected),
        ([frame(3, 0, 1, b"\0\0\0\1")], Failed),
        ([frame(3, 0, 1, b"\0\0\0\7")], NotTaken),
        ([frame(7, 0, 0, struct.pack(">II", 0, 0))], NotTaken),
    ],
)
def test_what_is_not_understood_is_said(frames: list[bytes], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        GrpcConnection(saying(*frames), soon()).call("/x", b"", soon(5))


def test_a_server_that_hangs_up_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        SmallCalls().call(saying(HEADERS, hold=False), "Regress", b"", model="m", deadline=soon())


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
                heard.append(connection.recv(1 << 16))
                connection.sendall(b"".join(said))

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1]), heard


def answer_of(stream: int) -> list[bytes]:
    return [one[:8] + bytes([stream]) + one[9:] for one in (HEADERS, DATA, TRAILERS)]


def test_a_server_is_tried_before_it_gets_a_request() -> None:
    port, heard = answering([frame(1, 5, 1, b"\x8d")])
    with pytest.raises(Unexpected):
        SmallCalls().call(port, "Predict", b"a request", model="m", deadline=soon())
    assert (len(heard), b"a request" in heard[0]) == (1, False)


def test_a_call_that_the_server_had_begun_to_answer_is_not_sent_again() -> None:
    port, heard = answering(answer_of(1), [answer_of(3)[0]])
    with pytest.raises(Unreachable, match="was closed"):
        SmallCalls().call(port, "Predict", b"", model="m", deadline=soon())
    assert len(heard) == 2


@pytest.mark.parametrize(("key", "value"), [(4, 100), (3, 0), (6, 100)])
def test_settings_that_leave_no_room_are_said_before_anything_is_sent(key: int, value: int) -> None:
    settings = frame(4, 0, 0, struct.pack(">HIHI", key, value, 9, 9))
    port, heard = answering([settings, *answer_of(1)], [])
    with pytest.raises(Unexpected, match="no room"):
        SmallCalls().call(port, "Predict", bytes(200), model="m", deadline=soon())
    assert b"Predict" not in b"".join(heard)


def test_a_connection_is_given_up_before_its_window_for_answers_ends(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.grpc_connection._MOST_RECEIVED_BYTES", 5_000)
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
def test_whatever_the_servers_settings_no_call_is_lost_or_doubled(
    options: dict[str, int],
) -> None:
    with FakeModelServer(options) as server:
        one = ModelServers((server.grpc_port,), (server.rest_port,))
        bodies = [str(number).encode() * 1_000 for number in range(60)]
        answers = []
        for body in bodies:
            answers.append(one.grpc("Regress", body, call()))
            time.sleep(0.002)
        assert (answers, [body for _, body in server.requests]) == (bodies, bodies)


def test_what_is_not_understood_goes_over_grpcio_from_then_on(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def odd(self: SmallCalls, port: int, method: str, *_: object, **__: object) -> bytes:
        asked.append(method)
        raise Unexpected("a novelty")

    monkeypatch.setattr(SmallCalls, "call", odd)
    one = ModelServers((server.grpc_port,), (server.rest_port,))
    answers = [one.grpc("Regress", b"x", call()) for _ in range(3)]
    assert (answers, asked) == ([b"x"] * 3, ["Regress"])


def test_a_larger_message_goes_over_grpcio(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmallCalls, "call", None)
    body = bytes(MOST_BYTES + 1)
    one = ModelServers((server.grpc_port,), (server.rest_port,))
    assert one.grpc("Regress", body, call()) == body


@given(st.binary(max_size=60))
def test_any_headers_are_read_or_not_understood(block: bytes) -> None:
    try:
        list(fields(block))
    except Unexpected:
        return


def whole(stream: int, *, message: bytes = b"ok", status: bytes = b"0") -> bytes:
    prefix = b"\0" + struct.pack(">I", len(message))
    return (
        frame(1, 4, stream, b"\x88")
        + frame(0, 0, stream, prefix + message)
        + frame(1, 5, stream, literal(b"grpc-status", status))
    )


@pytest.mark.parametrize(
    ("third", "heard"),
    [
        (whole(5, message=b"no"), (0, b"", b"no")),
        (whole(5, status=b"7"), (7, b"", b"")),
        (whole(5, message=b"longer"), (0, b"", b"longer")),
        (whole(3) + whole(5, message=b"no"), (0, b"", b"no")),
        (SETTINGS + whole(5, message=b"no"), (0, b"", b"no")),
    ],
    ids=["same form", "refused", "longer", "another stream's first", "settings first"],
)
def test_after_answers_of_one_form_another_one_is_still_read(
    third: bytes, heard: tuple[int, bytes, bytes]
) -> None:
    port, _ = answering([whole(1)], [whole(3)], [third])
    connection = GrpcConnection(port, soon())
    answers = [connection.call("/s/m", b"", soon()) for _ in range(3)]
    connection.close()
    assert answers == [(0, b"", b"ok"), (0, b"", b"ok"), heard]
