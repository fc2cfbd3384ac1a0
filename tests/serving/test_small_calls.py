"""serving/small_calls.py against gRPC's own server, and against servers that say odd things."""

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
from hypothesis import given

from serving.model_servers import ModelServers
from serving.rest import TooLate, Unreachable
from serving.small_calls import MOST_BYTES, Failed, SmallCalls, Unexpected, _fields
from tests.serving.fake_model_server import FakeModelServer
from tests.serving.test_model_servers import call


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize("size", [0, 1, 127, 2_000, MOST_BYTES])
def test_bytes_of_any_small_size_come_back(size: int, server: FakeModelServer) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    assert (
        SmallCalls().call(server.grpc_port, "Regress", body[:size], deadline=soon())
        == (body[:size])
    )


def test_more_than_every_window_goes_over_one_connection(server: FakeModelServer) -> None:
    calls = SmallCalls()
    for _ in range(100):
        calls.call(server.grpc_port, "Regress", bytes(MOST_BYTES), deadline=soon())
    assert len(calls._idle[server.grpc_port]) == 1


def test_a_large_answer_to_a_small_request_comes_back(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "grpc_answer", lambda *_: bytes(9_000_000))
    assert len(SmallCalls().call(server.grpc_port, "Regress", b"", deadline=soon())) == 9_000_000


def test_calls_at_once_do_not_mix(server: FakeModelServer) -> None:
    calls = SmallCalls()
    server.delay_seconds = 0.01

    def one(number: int) -> bool:
        body = str(number).encode() * 100
        return calls.call(server.grpc_port, "Regress", body, deadline=soon()) == body

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(100)))


def test_a_refusal_has_code_and_message(server: FakeModelServer) -> None:
    with pytest.raises(Failed) as raised:
        SmallCalls().call(server.grpc_port, "GetModelMetadata", b"", deadline=soon())
    assert (raised.value.code, raised.value.message) == (5, "Servable not found for request")


def test_a_refusal_keeps_the_connection(server: FakeModelServer) -> None:
    calls = SmallCalls()
    with pytest.raises(Failed):
        calls.call(server.grpc_port, "GetModelMetadata", b"", deadline=soon())
    assert len(calls._idle[server.grpc_port]) == 1


def test_the_deadline_is_kept(server: FakeModelServer) -> None:
    server.delay_seconds = 1
    with pytest.raises(TooLate):
        SmallCalls().call(server.grpc_port, "Regress", b"", deadline=soon(0.2))


def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    with pytest.raises(Unreachable):
        SmallCalls().call(port, "Regress", b"", deadline=soon())


def test_a_server_that_was_started_anew_is_reached() -> None:
    calls = SmallCalls()
    with FakeModelServer() as first:
        calls.call(first.grpc_port, "Regress", b"", deadline=soon())
        idle = calls._idle[first.grpc_port]
    with FakeModelServer() as second:
        calls._idle[second.grpc_port] = idle  # a connection whose other end is gone
        assert calls.call(second.grpc_port, "Regress", b"x", deadline=soon()) == b"x"


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
    ],
    ids=["plain", "ping", "pieces", "table-size", "coded-text", "going-away", "others"],
)  # fmt: skip
def test_what_http_allows_is_understood(frames: list[bytes]) -> None:
    assert SmallCalls().call(saying(*frames), "Regress", b"", deadline=soon()) == b"ok"


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([frame(1, 4, 1, b"\x8d")], Unexpected),
        ([frame(1, 0, 1, b"\x88")], Unexpected),
        ([frame(1, 0xC, 1, b"\x00\x88")], Unexpected),
        ([frame(1, 4, 1, b"\xbe")], Unexpected),
        ([HEADERS, DATA, frame(1, 5, 1, b"\x88")], Unexpected),
        ([HEADERS, TRAILERS], Unexpected),
        ([HEADERS, frame(0, 0, 1, b"\1\0\0\0\x02ok"), TRAILERS], Unexpected),
        ([frame(4, 0, 0, struct.pack(">HI", 4, 100))], Unexpected),
        ([frame(1, 4, 1, b"\x00\x7f")], Unexpected),
        ([frame(3, 0, 1, b"\0\0\0\1")], Unreachable),
        ([frame(7, 0, 0, struct.pack(">II", 0, 0))], Unreachable),
    ],
)
def test_what_is_not_understood_is_said(frames: list[bytes], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        SmallCalls().call(saying(*frames), "Regress", b"", deadline=soon(5))


def test_a_server_that_hangs_up_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        SmallCalls().call(saying(HEADERS, hold=False), "Regress", b"", deadline=soon())


def test_what_is_not_understood_goes_over_grpcio_from_then_on(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def odd(self: SmallCalls, port: int, method: str, request: bytes, *, deadline: float) -> bytes:
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
        list(_fields(block))
    except Unexpected:
        return
