"""Cut off at any point of a request: what may have run is not sent again, and is said."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from servable_client import Endpoint, PredictionError, UnreachableError
from tests.servable_client.faults import WAYS, Way, endpoint_of, ran, trusting
from tests.servable_client.faulty_server import (
    AFTER,
    BEFORE,
    OF_CONNECTIONS,
    TLS_AFTER,
    TURNED_AWAY,
    Certificates,
    FaultyServer,
)

ATTEMPTS = 3
Serve = Callable[..., tuple[FaultyServer, Endpoint]]
# These may look like an answer that has no end; one that cannot be read was executed.
SAY_SO = {"neither length nor chunks", "a broken length", "half the headers"}


@pytest.fixture
def serve(made: Certificates) -> Iterator[Serve]:
    """serve(way, request="…", connection="…"): a server with that fault, and an endpoint of it."""
    open_ones: list[tuple[FaultyServer, Endpoint]] = []

    def one(
        way: Way, *, request: str = "answered", connection: str = "", chain: Path = made.chain
    ) -> tuple[FaultyServer, Endpoint]:
        def draw(of: str) -> str:
            return request if of == "request" else connection

        server = FaultyServer(draw, chain if way.endswith("TLS") else None)
        endpoint = endpoint_of(
            way, server.url, attempts=ATTEMPTS, timeout_seconds=30, sleep=lambda seconds: None
        )
        open_ones.append((server, endpoint))
        return open_ones[-1]

    with trusting(made):
        yield one
        for server, endpoint in open_ones:
            endpoint.close()
            server.close()


def failed(endpoint: Endpoint, **told: object) -> PredictionError:
    with pytest.raises(PredictionError) as caught:
        endpoint.predict(x=np.array([7]), **told)  # type: ignore[arg-type]
    return caught.value


def requests(way: Way) -> tuple[str, ...]:
    """Faults of requests; TLS hides from the client at which byte of an answer it was cut off."""
    if way.endswith("TLS"):
        return (*BEFORE, "after the last byte", "half the headers", "half the body", *TLS_AFTER)
    return (*BEFORE, *AFTER)


@pytest.mark.parametrize(
    ("way", "fault"), [(way, request) for way in WAYS for request in requests(way)]
)
def test_what_may_have_run_is_sent_once_and_says_so(serve: Serve, way: Way, fault: str) -> None:
    server, endpoint = serve(way, request=fault)
    failure = failed(endpoint, timeout_seconds=0.5 if fault == "never answered" else None)
    server.close()
    assert failure.executed in (("maybe", "yes") if fault in SAY_SO else ("maybe",))
    assert (failure.attempts, server.connections) == (1, 1)
    assert server.executed[7] == (1 if fault in AFTER + TLS_AFTER else 0)


@pytest.mark.parametrize("way", ["container", "SageMaker"])
@pytest.mark.parametrize("fault", TURNED_AWAY)
def test_what_was_turned_away_has_not_run(serve: Serve, way: Way, fault: str) -> None:
    server, endpoint = serve(way, request=fault)
    failure = failed(endpoint)
    server.close()
    assert (failure.executed, server.executed[7]) == ("no", 0)
    assert failure.attempts == (1 if fault == "too large" else ATTEMPTS)


@pytest.mark.parametrize("way", [way for way in WAYS if way.endswith("TLS")])
@pytest.mark.parametrize("fault", OF_CONNECTIONS)
def test_a_failed_handshake_ran_nothing_and_is_repeated(serve: Serve, way: Way, fault: str) -> None:
    server, endpoint = serve(way, connection=fault)
    failure = failed(endpoint)
    assert (failure.executed, failure.attempts) == ("no", ATTEMPTS)
    assert (server.connections, server.requests) == (ATTEMPTS, 0)


@pytest.mark.parametrize("way", [way for way in WAYS if way.endswith("TLS")])
def test_an_unknown_authority_is_sent_nothing(serve: Serve, made: Certificates, way: Way) -> None:
    server, endpoint = serve(way, chain=made.untrusted)
    assert (failed(endpoint).executed, server.requests) == ("no", 0)


@pytest.mark.parametrize("way", WAYS)
def test_where_nobody_listens_nothing_has_run_and_it_is_tried_again(serve: Serve, way: Way) -> None:
    server, endpoint = serve(way)
    server.close()
    failure = failed(endpoint)
    assert isinstance(failure, UnreachableError)
    assert (failure.executed, failure.attempts) == ("no", ATTEMPTS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", ["answered and closed", "answered and closed later"])
def test_a_connection_closed_is_noticed_before_writing(serve: Serve, way: Way, fault: str) -> None:
    server, endpoint = serve(way, request=fault)
    for number in range(5):
        assert endpoint.predict(x=np.array([number]))["y"].tolist() == [2 * number + 1]
        for thread in list(server._threads):
            thread.join(10)
    assert server.executed == dict.fromkeys(range(5), 1)


@pytest.mark.parametrize("way", WAYS)
def test_with_retry_unsafe_an_attempt_that_may_have_run_is_known(serve: Serve, way: Way) -> None:
    server, endpoint = serve(way, request="after the last byte")
    drawn = iter(["after the last byte", *["full queue"] * ATTEMPTS])
    server.draw = lambda of: next(drawn) if of == "request" else ""
    failure = failed(endpoint, retry_unsafe=True)
    assert (failure.executed, failure.attempts) == ("maybe", ATTEMPTS)
    assert server.executed[7] == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_calls_say_under_random_faults_was_executed(made: Certificates, way: Way) -> None:
    with trusting(made):
        found = ran(way, 30, seed=3, made=made)
    assert found.wrong == []
