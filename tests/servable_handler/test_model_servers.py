"""transport/model_servers.py and its transports: servers that are slow, full, gone, or back."""

import socket
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from servable_handler.request import Call, RequestError
from servable_handler.transport.model_servers import ModelServers
from tests.servable_handler.fake_model_server import FakeModelServer
from tests.servable_handler.raw_server import RawServer, answering

pytestmark = pytest.mark.long


def call(seconds: float = 20.0) -> Call:
    return Call("m", None, None, "predict", False, time.monotonic() + seconds)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def servers(*ports: tuple[int, int]) -> ModelServers:
    """Of gRPC and REST."""
    grpc_ports, rest_ports = zip(*ports, strict=True)
    return ModelServers(grpc_ports, rest_ports)


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
    nobody = free_port(), free_port()
    both = servers(nobody, server.ports)
    assert [ask(both) for _ in range(5)] == [200] * 5
    with pytest.raises(RequestError, match="restarting: try again") as raised:
        ask(servers(nobody))
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, 1)


@ASK
def test_a_server_that_says_nothing_is_504_at_the_deadline_once_and_is_set_aside(
    ask: Ask, server: FakeModelServer
) -> None:
    with RawServer(lambda connection: time.sleep(60)) as deaf:
        both = servers((deaf.port, deaf.port), server.ports)
        with pytest.raises(RequestError) as raised:
            ask(both, 0.3)
        # Whoever was set aside is asked for its status as well.
        asked = [one for one, _ in server.requests if one in ("Regress", "/v1/models/m:predict")]
        assert (raised.value.status, asked) == (504, [])
        assert [ask(both, 5) for _ in range(20)] == [200] * 20


def test_a_server_set_aside_comes_back_when_it_answers_for_its_status(
    server: FakeModelServer,
) -> None:
    with FakeModelServer() as other:
        both = servers(server.ports, other.ports)
        server.delay_seconds = 30
        with pytest.raises(RequestError):
            ask_grpc(both, 0.3)
        ask_grpc(both, 5)
        server.delay_seconds = 0
        server.requests.clear()
        until = time.monotonic() + 10
        while "Regress" not in dict(server.requests):
            assert time.monotonic() < until
            ask_grpc(both)
            time.sleep(0.02)


FULL = "The batch scheduling queue to which … is full"


@pytest.mark.parametrize(("code", "said", "status"), [
    (grpc.StatusCode.INVALID_ARGUMENT, "a shape", 400),
    (grpc.StatusCode.NOT_FOUND, "no such model", 404),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "too much", 429),
    (grpc.StatusCode.UNAVAILABLE, FULL, 429),
    (grpc.StatusCode.UNAVAILABLE, "a fault", 503),
    (grpc.StatusCode.INTERNAL, "a bug", 500),
    (grpc.StatusCode.UNIMPLEMENTED, "later", 501),
])  # fmt: skip
def test_what_the_server_refuses_has_a_status_of_its_own_and_is_not_sent_again(
    code: Any, said: str, status: int, server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(method: str, body: bytes, context: Any) -> bytes:
        if method != "GetModelStatus":
            asked.append(method)
            context.abort(code, said)
        return b""

    monkeypatch.setattr(server, "grpc_answer", refuse)
    with pytest.raises(RequestError) as raised:
        ask_grpc(servers(server.ports))
    retry_after = 1 if said == FULL else None
    assert (raised.value.status, raised.value.retry_after_seconds) == (status, retry_after)
    assert asked == ["Regress"]


def test_a_full_queue_keeps_grpcios_connection(
    server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    those = servers(server.ports)
    renewed: list[int] = []
    large = bytes(6_000_000)  # both ways
    assert len(those.call_grpc("Regress", large, call())) == len(large)
    monkeypatch.setattr(those._channels, "reset_channel", renewed.append)
    monkeypatch.setattr(
        server,
        "grpc_answer",
        lambda method, body, context: context.abort(grpc.StatusCode.UNAVAILABLE, FULL),
    )
    with pytest.raises(RequestError) as raised:
        those.call_grpc("Regress", bytes(20_000), call())
    assert (raised.value.status, renewed) == (429, [])


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "said", [b"", HEAD + b"\r\n", HEAD + b"Content-Length: 9\r\n\r\n{}", b"nonsense\r\n\r\n"]
)
def test_an_answer_that_is_none_is_503(said: bytes) -> None:
    with answering(said, last=True) as one, pytest.raises(RequestError) as raised:
        ask_rest(servers((1, one.port)))
    assert (raised.value.status, raised.value.retry_after_seconds) == (503, None)
