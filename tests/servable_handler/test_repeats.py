"""A request is sent at most twice, and never again once a model server may have begun with it."""

import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from servable_handler.request import RequestError
from servable_handler.transport.model_servers import ModelServers
from tests.servable_handler.fake_model_server import FakeModelServer
from tests.servable_handler.http2_bytes import SETTINGS, frame, whole
from tests.servable_handler.raw_server import RawServer
from tests.servable_handler.test_model_servers import call, free_port
from tests.servable_handler.test_model_servers import servers as of_ports

pytestmark = pytest.mark.long

LARGE = 20_000
"""Bytes of a gRPC request for which grpcio is used."""
REST_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def by_rest(those: ModelServers, word: bytes) -> object:
    return those.call_rest(
        "/v1/models/m:predict", b'{"inputs": [[1, 2, 3]], "_": ' + word + b"}", call()
    )


def by_small_calls(those: ModelServers, word: bytes) -> object:
    return those.call_grpc("Regress", word, call())


def by_grpcio(those: ModelServers, word: bytes) -> object:
    return those.call_grpc("Regress", word + bytes(LARGE), call())


ASKS = {"REST": by_rest, "small calls": by_small_calls, "grpcio": by_grpcio}
TRANSPORT = pytest.mark.parametrize("transport", ASKS)


def test_a_server_that_ended_while_idle_costs_no_request() -> None:
    with FakeModelServer() as living:
        with FakeModelServer() as ending:
            servers = {transport: of_ports(ending.ports, living.ports) for transport in ASKS}
            for transport, ask in ASKS.items():
                for _ in range(4):
                    ask(servers[transport], b"1")
        living.requests.clear()
        for transport, ask in ASKS.items():
            for _ in range(12):
                ask(servers[transport], b"1")
        assert sum(method != "GetModelStatus" for method, _ in living.requests) == 36


class Breaking(RawServer):
    """Breaks off at one point of the second request, and counts what it began to get.

    The points: "accepted", "first byte", "whole request", "half an answer".
    """

    def __init__(self, point: str, *, http2: bool, port: int = 0) -> None:
        self._point, self._http2 = point, http2
        self.requests = 0
        """Those whose first byte came, and connections broken off before it."""
        super().__init__(self._break_off, port)

    def _break_off(self, connection: socket.socket) -> None:
        with suppress(OSError):
            self._serve_until(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _serve_until(self, connection: socket.socket) -> None:
        """Until it breaks off or the caller does."""
        if self._http2:
            connection.sendall(SETTINGS)
        for stream in itertools.count(1, 2):
            if self._point == "accepted" and self.requests:
                self.requests += 1
                return
            first = connection.recv(1)
            if not self._http2 and first != b"P":
                return  # whoever was set aside is asked for its status
            while self._http2 and b"grpc-timeout" not in first:
                # Up to the headers of a call: what comes before is no request.
                if not (piece := connection.recv(1)):
                    return
                first += piece
            self.requests += 1
            if self.requests > 1 and self._point == "first byte":
                return
            connection.settimeout(0.2)
            with suppress(TimeoutError):
                while connection.recv(1 << 16):
                    pass
            connection.settimeout(None)
            if self.requests > 1 and self._point == "whole request":
                return
            answer = whole(stream).removeprefix(SETTINGS) if self._http2 else REST_ANSWER
            if self.requests > 1 and self._point == "half an answer":
                connection.sendall(answer[: len(answer) // 2])
                return
            connection.sendall(answer)


@TRANSPORT
@pytest.mark.parametrize("point", ["accepted", "first byte", "whole request", "half an answer"])
def test_a_request_that_a_server_broke_off_is_not_sent_again(point: str, transport: str) -> None:
    http2 = transport != "REST"
    with Breaking(point, http2=http2) as first, Breaking("never", http2=http2) as second:
        those = ModelServers((first.port, second.port), (first.port, second.port))
        first.requests = 0 if transport == "small calls" else 1  # its trial is the first request
        those._choice.take = lambda avoid=None: 0 if avoid is None else 1  # type: ignore[method-assign]
        with pytest.raises(RequestError) as raised:
            ASKS[transport](those, b"1")
        assert second.requests == 0
        assert point == "accepted" or first.requests == 2
        assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)


class Refusing(RawServer):
    """An HTTP/2 server that refuses each call in HTTP/2's own words, but for trials."""

    def __init__(self, words: Callable[[int], bytes]) -> None:
        self._words = words
        self.requests = 0
        super().__init__(self._refuse)

    def _refuse(self, connection: socket.socket) -> None:
        connection.sendall(SETTINGS)
        for stream in itertools.count(1, 2):
            got = b""
            while b"grpc-timeout" not in got:
                if not (piece := connection.recv(1 << 16)):
                    return
                got += piece
            if b"GetModelStatus" in got:
                connection.sendall(whole(stream).removeprefix(SETTINGS))
            else:
                self.requests += 1
                connection.sendall(self._words(stream))


Refuse = Callable[[Callable[[int], bytes]], Refusing]


@pytest.fixture
def refusing() -> Iterator[Refuse]:
    """Makes servers that refuse, which end with the test."""
    with ExitStack() as ends:
        yield lambda words: ends.enter_context(Refusing(words))


def refused(stream: int) -> bytes:
    return frame(3, 0, stream, b"\0\0\0\7")


def going_away(stream: int) -> bytes:
    return frame(7, 0, 0, struct.pack(">II", max(stream - 2, 0), 0))


@pytest.mark.parametrize("words", [refused, going_away])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_call_that_servers_refuse_before_they_begin_is_sent_twice_at_most(
    refusing: Refuse, words: Callable[[int], bytes], count: int
) -> None:
    # grpcio does not say why a call failed: through it, it is sent once.
    for by, times, retry_after in [(by_small_calls, 2, 1), (by_grpcio, 1, None)]:
        those = [refusing(words) for _ in range(count)]
        ports = tuple(one.port for one in those)
        with pytest.raises(RequestError) as raised:
            by(ModelServers(ports, ports), b"1")
        assert sum(one.requests for one in those) == times
        assert (raised.value.status, raised.value.retry_after_seconds) == (503, retry_after)


def test_a_call_refused_by_one_server_is_answered_by_another(refusing: Refuse) -> None:
    first, second = refusing(refused), refusing(lambda stream: whole(stream).removeprefix(SETTINGS))
    ports = (first.port, second.port)
    those = ModelServers(ports, ports)
    those._choice.take = lambda avoid=None: 0 if avoid is None else 1  # type: ignore[method-assign]
    assert those.call_grpc("Regress", b"1", call()) == b"ok"
    assert (first.requests, second.requests) == (1, 1)


@TRANSPORT
def test_the_only_server_that_listens_again_within_a_second_gets_the_request(
    transport: str,
) -> None:
    port = free_port()
    late: list[Breaking] = []

    def listen() -> None:
        time.sleep(0.3)
        late.append(Breaking("never", http2=transport != "REST", port=port))

    threading.Thread(target=listen).start()
    ASKS[transport](ModelServers((port,), (port,)), b"1")
    late[0].close()
