"""The connections to a model server's REST port that are kept open between requests."""

import select
import socket
import threading
import time

import pytest

from servable_handler.transport import rest
from servable_handler.transport.rest import MOST_KEPT, BrokenOffError, RestConnections
from tests.servable_handler.raw_server import RawServer, answering

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CLOSING = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class Client:
    """RestConnections whose sockets are seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[socket.socket] = []
        self._connections = RestConnections()
        connected = rest.open_connection

        def seen(port: int, deadline: float) -> socket.socket:
            self.opened.append(connected(port, deadline))
            return self.opened[-1]

        monkeypatch.setattr(rest, "open_connection", seen)

    def ask(self, server: RawServer) -> tuple[int, bytes]:
        deadline = time.monotonic() + 20
        return self._connections.exchange(server.port, "POST", "/", b"{}", deadline=deadline)

    @property
    def closed(self) -> list[bool]:
        return [connection.fileno() < 0 for connection in self.opened]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


def test_one_connection_serves_requests_until_the_model_server_closes_it(client: Client) -> None:
    with answering(ANSWER, ANSWER) as server:
        assert [client.ask(server) for _ in range(3)] == [(200, b"{}")] * 3
        assert client.closed == [False]
        server.hang_up()
        select.select(client.opened, [], [], 20)  # until the end has come
        assert client.ask(server) == (200, b"{}")
        assert client.closed == [True, False]


@pytest.mark.parametrize("answer", [CLOSING, ANSWER + ANSWER[:-2] + b"no"])
def test_a_connection_that_is_not_to_be_used_again_is_closed(client: Client, answer: bytes) -> None:
    with answering(answer) as server:
        assert [client.ask(server) for _ in range(2)] == [(200, b"{}")] * 2
    assert client.closed == [True, True]


@pytest.mark.parametrize("kept", [ANSWER[:-1], ANSWER[:10], b""])
def test_an_answer_that_breaks_off_is_not_asked_for_once_more(client: Client, kept: bytes) -> None:
    with answering(ANSWER, kept, last=True) as server:
        client.ask(server)
        with pytest.raises(BrokenOffError):
            client.ask(server)
        assert (len(server.connections), client.closed) == (1, [True])


def test_no_more_connections_are_kept_than_the_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As many requests at once as are kept, and one more: none is idle before the last has opened its own.
    together = threading.Barrier(MOST_KEPT + 1, timeout=20)
    receive = rest._receive_piece

    def at_once(connection: socket.socket) -> bytes:
        together.wait()
        return receive(connection)

    monkeypatch.setattr(rest, "_receive_piece", at_once)
    with answering(ANSWER) as server:
        callers = [
            threading.Thread(target=client.ask, args=(server,), daemon=True)
            for _ in range(MOST_KEPT + 1)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(20)
    assert client.closed.count(True) == 1
