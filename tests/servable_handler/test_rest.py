"""The connections to a model server's REST port that are kept open between requests."""

import select
import socket
import threading
import time

import pytest

from servable_handler.transport import rest
from servable_handler.transport.rest import MOST_KEPT, RestConnections

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class ModelServer:
    """A server that answers requests one after the other; it keeps connections until it is told otherwise."""

    def __init__(self, answer: bytes = ANSWER) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.port = int(self._listener.getsockname()[1])
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted.append(connection)
            threading.Thread(target=self._answers, args=(connection,), daemon=True).start()

    def _answers(self, connection: socket.socket) -> None:
        try:
            while connection.recv(1 << 16):
                connection.sendall(self._answer)
        except OSError:
            pass

    def hang_up(self) -> None:
        for connection in self.accepted:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.accepted:
            connection.close()


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

    def ask(self, server: ModelServer) -> tuple[int, bytes]:
        deadline = time.monotonic() + 20
        return self._connections.exchange(server.port, "POST", "/", b"{}", deadline=deadline)

    @property
    def closed(self) -> list[bool]:
        return [connection.fileno() < 0 for connection in self.opened]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


def test_one_connection_serves_requests_that_follow_each_other(client: Client) -> None:
    server = ModelServer()
    answers = [client.ask(server) for _ in range(3)]
    server.close()
    assert (answers, client.closed) == ([(200, b"{}")] * 3, [False])


def test_a_connection_that_the_model_server_closed_is_closed_on_our_side_too(
    client: Client,
) -> None:
    server = ModelServer()
    client.ask(server)
    server.hang_up()
    select.select(client.opened, [], [], 20)  # until the end has come
    client.ask(server)
    server.close()
    assert client.closed == [True, False]


@pytest.mark.parametrize(
    "answer",
    [ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), ANSWER + b"more"],
    ids=["connection: close", "bytes after the answer"],
)
def test_a_connection_that_is_not_to_be_used_again_is_closed(client: Client, answer: bytes) -> None:
    server = ModelServer(answer)
    assert client.ask(server) == (200, b"{}")
    server.close()
    assert client.closed == [True]


def test_a_connection_whose_request_failed_is_closed(client: Client) -> None:
    server = ModelServer(b"HTTP/1.1 200 OK\r\n\r\n")
    with pytest.raises(rest.BrokenOffError):
        client.ask(server)
    server.close()
    assert client.closed == [True]


def test_no_more_connections_are_kept_than_the_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ModelServer()
    # As many requests at once as are kept, and one more: none is idle before the last has opened its own.
    together = threading.Barrier(MOST_KEPT + 1, timeout=20)
    send = rest._send

    def at_once(connection: socket.socket, data: bytes) -> None:
        together.wait()
        send(connection, data)

    monkeypatch.setattr(rest, "_send", at_once)
    callers = [
        threading.Thread(target=client.ask, args=(server,), daemon=True)
        for _ in range(MOST_KEPT + 1)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    server.close()
    assert client.closed.count(True) == 1
