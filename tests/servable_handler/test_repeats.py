"""A request is sent at most twice, and never again once a model server may have begun with it."""

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Self

import pytest

from servable_handler.request import RequestError
from servable_handler.transport.model_servers import ModelServers
from tests.servable_handler.endpoints import ROOT
from tests.servable_handler.mortal_server import DEADLY
from tests.servable_handler.test_model_servers import call
from tests.servable_handler.test_small_calls import SETTINGS, frame, whole

pytestmark = pytest.mark.long

LARGE = 20_000
"""Bytes of a gRPC request for which grpcio is used."""
Ask = Callable[[ModelServers, bytes], object]


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


class Processes:
    """Model servers in processes of their own, some of which have ended."""

    def __init__(self, count: int, counted: Path, ends: ExitStack) -> None:
        self._counted = counted
        command = [sys.executable, "-m", "tests.servable_handler.mortal_server", str(counted)]
        self._all = [
            subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(count)
        ]
        for one in self._all:
            ends.callback(one.wait)
            ends.callback(one.kill)
        self._ports = [json.loads(one.stdout.readline()) for one in self._all if one.stdout]

    def living(self) -> list[int]:
        return [number for number, one in enumerate(self._all) if one.poll() is None]

    def servers(self, numbers: list[int]) -> ModelServers:
        """As a process that has just begun sees these."""
        grpc_ports, rest_ports = zip(*(self._ports[number] for number in numbers), strict=True)
        return ModelServers(grpc_ports, rest_ports)

    def end(self, number: int) -> None:
        self._all[number].kill()
        self._all[number].wait()

    def executions(self) -> int:
        return len(self._counted.read_text().splitlines()) if self._counted.exists() else 0


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with ExitStack() as ends:
        # Each of four tests ends one, and needs four of them.
        yield Processes(7, tmp_path_factory.mktemp("mortal") / "executions", ends)


@TRANSPORT
def test_a_request_that_ends_model_servers_ends_one_of_four(
    transport: str, processes: Processes
) -> None:
    ask, before, four = ASKS[transport], processes.executions(), processes.living()[:4]
    servers = processes.servers(four)
    for _ in range(8):  # connections are kept to each
        ask(servers, b"1")
    with pytest.raises(RequestError, match="it wasn't retried") as raised:
        ask(servers, DEADLY)
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)
    time.sleep(0.3)
    assert len(set(four) & set(processes.living())) == 3
    assert processes.executions() - before == 9
    ask(servers, b"1")


def test_a_server_that_ended_while_idle_costs_no_request(processes: Processes) -> None:
    before, two = processes.executions(), processes.living()[:2]
    servers = {transport: processes.servers(two) for transport in ASKS}
    for count in (4, 12):
        for transport, ask in ASKS.items():
            for _ in range(count):
                ask(servers[transport], b"1")
        if count == 4:
            processes.end(two[0])
    assert processes.executions() - before == 3 * 16


class Raw:
    """A server that breaks off at one point of the second request, and counts what it began to get.

    The points: "accepted", "first byte", "whole request", "half an answer".
    """

    def __init__(self, point: str, *, http2: bool) -> None:
        self._point, self._http2 = point, http2
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.requests = 0
        """Those whose first byte came, and connections broken off before it."""
        self._kept: list[socket.socket] = []

    def __enter__(self) -> Self:
        _begin(self._listener, self._kept, self._serve)
        return self

    def __exit__(self, *failure: object) -> None:
        _end(self._listener, self._kept)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._http2:
                connection.sendall(SETTINGS)
            stream = 1
            while True:
                if self._point == "accepted" and self.requests:
                    self.requests += 1
                    break
                first = connection.recv(1)
                if not first:
                    return
                if not self._http2 and first != b"P":
                    break  # whoever was set aside is asked for its status
                while self._http2 and b"grpc-timeout" not in first:
                    # Up to the headers of a call: what comes before is no request.
                    piece = connection.recv(1)
                    if not piece:
                        return
                    first += piece
                self.requests += 1
                if self.requests > 1 and self._point == "first byte":
                    break
                self._read_whole(connection, first)
                if self.requests > 1 and self._point == "whole request":
                    break
                answer = _answer(stream, http2=self._http2)
                if self.requests > 1 and self._point == "half an answer":
                    connection.sendall(answer[: len(answer) // 2])
                    break
                connection.sendall(answer)
                stream += 2
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _read_whole(self, connection: socket.socket, start: bytes) -> None:
        connection.settimeout(0.2)
        with suppress(TimeoutError):
            while connection.recv(1 << 16):
                pass
        connection.settimeout(None)


def _begin(
    listener: socket.socket, kept: list[socket.socket], serve: Callable[[socket.socket], None]
) -> None:
    """Serves each connection in a thread of its own, until the listener is ended."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                kept.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def _end(listener: socket.socket, kept: list[socket.socket]) -> None:
    """Channels of grpcio connect again for as long as something listens: each would keep a file open."""
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
    listener.close()
    for one in kept:
        one.close()


def _answer(stream: int, *, http2: bool) -> bytes:
    if http2:
        return whole(stream).removeprefix(SETTINGS)
    return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@TRANSPORT
@pytest.mark.parametrize("point", ["accepted", "first byte", "whole request", "half an answer"])
def test_a_request_that_a_server_broke_off_is_not_sent_again(point: str, transport: str) -> None:
    http2 = transport != "REST"
    with Raw(point, http2=http2) as first, Raw("never", http2=http2) as second:
        those = ModelServers((first.port, second.port), (first.port, second.port))
        first.requests = 0 if transport == "small calls" else 1  # its trial is the first request
        those._choice.take = lambda avoid=None: 0 if avoid is None else 1  # type: ignore[method-assign]
        with pytest.raises(RequestError) as raised:
            ASKS[transport](those, b"1")
        assert second.requests == 0
        assert point == "accepted" or first.requests == 2
        assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)


class Refusing:
    """An HTTP/2 server that refuses each call in HTTP/2's own words, but for trials."""

    def __init__(self, words: Callable[[int], bytes]) -> None:
        self._words = words
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.requests = 0
        self._kept: list[socket.socket] = []
        _begin(self._listener, self._kept, self._serve)

    def close(self) -> None:
        _end(self._listener, self._kept)

    def _serve(self, connection: socket.socket) -> None:
        got, stream = b"", 1
        with suppress(OSError):
            connection.sendall(SETTINGS)
            while True:
                while b"grpc-timeout" not in got:
                    piece = connection.recv(1 << 16)
                    if not piece:
                        return
                    got += piece
                if b"GetModelStatus" in got:
                    connection.sendall(whole(stream).removeprefix(SETTINGS))
                else:
                    self.requests += 1
                    connection.sendall(self._words(stream))
                got, stream = b"", stream + 2


Refuse = Callable[[Callable[[int], bytes]], Refusing]


@pytest.fixture
def refusing() -> Iterator[Refuse]:
    """Makes servers that refuse, which end with the test."""
    with ExitStack() as ends:

        def make(words: Callable[[int], bytes]) -> Refusing:
            return ends.enter_context(closing(Refusing(words)))

        yield make


def refused(stream: int) -> bytes:
    return frame(3, 0, stream, b"\0\0\0\7")


def going_away(stream: int) -> bytes:
    return frame(7, 0, 0, struct.pack(">II", max(stream - 2, 0), 0))


@pytest.mark.parametrize("words", [refused, going_away])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_call_that_servers_refuse_before_they_begin_is_sent_twice_at_most(
    refusing: Refuse, words: Callable[[int], bytes], count: int
) -> None:
    those = [refusing(words) for _ in range(count)]
    ports = tuple(one.port for one in those)
    with pytest.raises(RequestError) as raised:
        by_small_calls(ModelServers(ports, ports), b"1")
    assert sum(one.requests for one in those) == 2
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, 1)


@pytest.mark.parametrize("words", [refused, going_away])
def test_a_call_through_grpcio_is_sent_once_since_it_does_not_say_why_it_failed(
    refusing: Refuse, words: Callable[[int], bytes]
) -> None:
    those = [refusing(words) for _ in range(2)]
    ports = tuple(one.port for one in those)
    with pytest.raises(RequestError) as raised:
        by_grpcio(ModelServers(ports, ports), b"1")
    assert sum(one.requests for one in those) == 1
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)


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
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = int(reserved.getsockname()[1])
    http2 = transport != "REST"
    late: list[Raw] = []

    def listen() -> None:
        time.sleep(0.3)
        server = Raw("never", http2=http2)
        server._listener.close()
        server._listener = socket.create_server(("127.0.0.1", port))
        late.append(server.__enter__())

    threading.Thread(target=listen).start()
    ASKS[transport](ModelServers((port,), (port,)), b"1")
    late[0].__exit__()
