"""transport/model_servers.py and its transports: servers that are slow, full, gone, or back."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from servable_handler.request import Call, RequestError
from servable_handler.transport.model_servers import ModelServers
from servable_handler.transport.rest import BrokenOffError, RestConnections
from tests.servable_handler.fake_model_server import FakeModelServer

pytestmark = pytest.mark.long

PREDICT = "Predict"


def call(seconds: float = 20.0) -> Call:
    return Call("m", None, None, "predict", False, time.monotonic() + seconds)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
def other() -> Iterator[FakeModelServer]:
    with FakeModelServer() as running:
        yield running


def servers(*fakes: Any) -> ModelServers:
    return ModelServers(
        tuple(fake.grpc_port for fake in fakes), tuple(fake.rest_port for fake in fakes)
    )


class Nobody:
    """Ports at which nobody listens."""

    def __init__(self) -> None:
        self.grpc_port, self.rest_port = free_port(), free_port()


OPEN: list[socket.socket] = []


class Deaf:
    """Ports at which connections are taken and nothing is ever said."""

    def __init__(self) -> None:
        listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.grpc_port, self.rest_port = (int(one.getsockname()[1]) for one in listening)
        OPEN.extend(listening)


def ask_rest(those: ModelServers, seconds: float = 20.0) -> int:
    return those.call_rest("/v1/models/m:predict", b'{"inputs": [[1, 2, 3]]}', call(seconds))[0]


def ask_grpc(those: ModelServers, seconds: float = 20.0) -> int:
    those.call_grpc("Regress", b"anything", call(seconds))
    return 200


ASK = pytest.mark.parametrize("ask", [ask_rest, ask_grpc])
Ask = Callable[..., int]


@ASK
def test_a_server_that_is_gone_costs_no_request_unless_it_is_the_only_one(
    ask: Ask, server: FakeModelServer
) -> None:
    both = servers(Nobody(), server)
    assert [ask(both) for _ in range(5)] == [200] * 5
    with pytest.raises(RequestError, match="restarting: try again") as raised:
        ask(servers(Nobody()))
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, 1)


@ASK
def test_a_server_that_says_nothing_is_504_at_the_deadline_once_and_is_set_aside(
    ask: Ask, server: FakeModelServer
) -> None:
    both = servers(Deaf(), server)
    with pytest.raises(RequestError) as raised:
        ask(both, 0.3)
    assert (raised.value.status, asked(server)) == (504, 0)
    assert [ask(both, 5) for _ in range(20)] == [200] * 20


def asked(server: FakeModelServer) -> int:
    """How many predictions reached it; whoever was set aside is asked for its status as well."""
    return sum(method in ("Regress", "/v1/models/m:predict") for method, _ in server.requests)


def came_back(those: ModelServers, server: FakeModelServer) -> bool:
    """Whether the server gets requests again, within ten seconds."""
    server.requests.clear()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        ask_grpc(those)
        if any(method == "Regress" for method, _ in server.requests):
            return True
        time.sleep(0.02)
    return False


def test_a_server_set_aside_comes_back_when_it_answers_for_its_status(
    server: FakeModelServer, other: FakeModelServer
) -> None:
    both = servers(server, other)
    server.delay_seconds = 30
    with pytest.raises(RequestError):
        ask_grpc(both, 0.3)
    ask_grpc(both, 5)
    server.delay_seconds = 0
    assert came_back(both, server)


def test_a_server_that_answers_unavailable_is_503_and_the_request_is_not_sent_again(
    server: FakeModelServer,
) -> None:
    def fault() -> None:
        raise UnavailableError

    server.fault = fault
    with pytest.raises(RequestError) as raised:
        ask_grpc(servers(server))
    assert (raised.value.status, raised.value.retry_after_seconds, asked(server)) == (503, None, 1)


class UnavailableError(Exception):
    """Makes the fake abort."""


@pytest.mark.parametrize(
    ("code", "said", "status"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "a shape", 400),
        (grpc.StatusCode.NOT_FOUND, "no such model", 404),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too much", 429),
        (grpc.StatusCode.UNAVAILABLE, "The batch scheduling queue to which … is full", 429),
        (grpc.StatusCode.INTERNAL, "a bug", 500),
        (grpc.StatusCode.UNIMPLEMENTED, "later", 501),
    ],
)
def test_what_the_server_refuses_has_a_status_of_its_own(
    code: Any, said: str, status: int, server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        server, "grpc_answer", lambda method, body, context: context.abort(code, said)
    )
    with pytest.raises(RequestError) as raised:
        ask_grpc(servers(server))
    assert raised.value.status == status


def test_a_full_queue_is_not_tried_again(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def full(method: str, body: bytes, context: Any) -> bytes:
        if method == "GetModelStatus":
            return b""
        asked.append(method)
        context.abort(grpc.StatusCode.UNAVAILABLE, "The batch scheduling queue is full")
        return b""

    monkeypatch.setattr(server, "grpc_answer", full)
    with pytest.raises(RequestError):
        ask_grpc(servers(server))
    assert asked == ["Regress"]


def test_a_full_queue_keeps_grpcios_connection(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    those = servers(server)
    renewed: list[int] = []
    those.call_grpc("Regress", bytes(20_000), call())
    monkeypatch.setattr(those._channels, "reset_channel", renewed.append)
    said = "The batch scheduling queue is full"
    monkeypatch.setattr(
        server,
        "grpc_answer",
        lambda method, body, context: context.abort(grpc.StatusCode.UNAVAILABLE, said),
    )
    with pytest.raises(RequestError) as raised:
        those.call_grpc("Regress", bytes(20_000), call())
    assert (raised.value.status, renewed) == (429, [])


def test_more_than_four_megabytes_go_both_ways(server: FakeModelServer) -> None:
    body = bytes(6_000_000)
    assert len(servers(server).call_grpc("Regress", body, call())) == len(body)


def test_connections_are_kept(server: FakeModelServer) -> None:
    opened = []
    connect = socket.create_connection

    def counting(address: tuple[str, int], *given: Any, **named: Any) -> socket.socket:
        # Threads of other tests connect meanwhile, to ports of their own.
        if address[1] == server.rest_port:
            opened.append(address)
        return connect(address, *given, **named)

    kept = servers(server)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(socket, "create_connection", counting)
        for _ in range(5):
            ask_rest(kept)
    assert len(opened) == 1


def listening(answers: list[bytes]) -> int:
    """The port of a server that says one of these on each connection, and closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            connection, _ = server.accept()
            connection.recv(1 << 16)
            connection.sendall(answer)
            connection.close()
        server.close()

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


SAID = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_connection_that_was_closed_while_idle_is_opened_anew() -> None:
    port = listening([SAID, SAID])
    one = ModelServers((1,), (port,))
    statuses = [ask_rest(one)]
    time.sleep(0.2)  # until the server has closed it
    assert [*statuses, ask_rest(one)] == [200, 200]


@pytest.mark.parametrize("kept", [SAID[:-1], SAID[:10], b""])
def test_an_answer_that_breaks_off_is_not_asked_for_once_more(kept: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    heard = []

    def serve() -> None:
        connection, _ = listener.accept()
        for said in (SAID, kept):
            heard.append(connection.recv(1 << 16))
            connection.sendall(said)
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    connections, port = RestConnections(), int(listener.getsockname()[1])
    connections.exchange(port, "POST", "/", b"", deadline=time.monotonic() + 20)
    with listener, pytest.raises(BrokenOffError):
        connections.exchange(port, "POST", "/", b"", deadline=time.monotonic() + 20)
    assert len(heard) == 2


@pytest.mark.parametrize("length", [b"Content-Length: 2", b"Transfer-Encoding: chunked"])
def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one(length: bytes) -> None:
    body = b"2\r\n{}\r\n0\r\n\r\n" if b"chunked" in length else b"{}"
    doubled = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body + SAID.replace(b"{}", b"no")
    one = ModelServers((1,), (listening([doubled, SAID]),))
    answers = [one.call_rest("/", b"", call()) for _ in range(2)]
    assert answers == [(200, b"{}"), (200, b"{}")]


def test_an_answer_in_chunks_is_read() -> None:
    chunks = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n"
    )
    one = ModelServers((1,), (listening([chunks]),))
    assert one.call_rest("/", b"", call()) == (200, b"{}")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"nonsense\r\n\r\n",
    ],
)
def test_an_answer_that_is_none_is_503(said: bytes) -> None:
    one = ModelServers((1,), (listening([said, SAID]),))
    with pytest.raises(RequestError) as raised:
        ask_rest(one)
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)
