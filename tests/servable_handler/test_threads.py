"""Calls of many threads through grpcio, while connections to the model server are renewed."""

import itertools
import socket
import threading
import time
from collections import Counter

import pytest

from servable_handler.request import Call, RequestError
from servable_handler.transport import channels
from servable_handler.transport.channels import Channels
from servable_handler.transport.model_servers import ModelServers
from servable_handler.transport.rest import is_open
from tests.servable_handler.fake_model_server import FakeModelServer

THREADS, CALLS = 8, 3000
MORE_THAN_SMALL = bytes(20_000)


def test_a_renewal_closes_no_socket_that_a_call_is_looking_at(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    those = Channels()
    open_while_renewed: list[bool] = []

    def look(sentinel: socket.socket, *, silent: bool) -> bool:
        renewal = threading.Thread(target=those.reset_channel, args=(server.grpc_port,))
        renewal.start()
        renewal.join(0.1)
        open_while_renewed.append(sentinel.fileno() >= 0)
        return is_open(sentinel, silent=silent)

    monkeypatch.setattr(channels, "is_open", look)
    for _ in range(2):
        those.call(server.grpc_port, "Regress", b"", deadline=time.monotonic() + 60)
    assert open_while_renewed == [True]
    # A socket that was closed here is not open.
    closed = socket.socket()
    closed.close()
    assert is_open(closed) is False


@pytest.mark.long
def test_a_renewal_of_one_thread_fails_no_call_of_another(server: FakeModelServer) -> None:
    servers = ModelServers((server.grpc_port,), (server.rest_port,))
    numbers = itertools.count()
    outcomes: Counter[str] = Counter()
    server.requests = []

    def work() -> None:
        while (number := next(numbers)) < CALLS:
            if number % 5 == 0:
                servers._channels.reset_channel(server.grpc_port)
            call = Call("m", None, None, "predict", False, time.monotonic() + 60)
            try:
                servers.call_grpc("Regress", MORE_THAN_SMALL, call)
                outcomes["answered"] += 1
            except RequestError as error:
                outcomes[f"{error.status} {error.message}"] += 1
            except Exception as error:
                outcomes[repr(error)] += 1

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"answered": CALLS}
