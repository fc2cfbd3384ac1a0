"""A container asked directly: the same class, no AWS in between."""

import numpy as np
import pytest

from servable_client import (
    BadInputError,
    ConnectionLostError,
    DeadlineExceededError,
    Endpoint,
    ModelFailedError,
    PredictionError,
    QueueFullError,
    RefusedError,
)
from tests.servable_client.runtime_server import RESET, Reply, RuntimeServer

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrays_go_in_and_come_out_at_every_address_that_serve_prints(
    server: RuntimeServer,
) -> None:
    with Endpoint.local(server.url) as endpoint:
        np.testing.assert_array_equal(endpoint.predict(x=X, split=1)["y"], X * 2)
    for given, path in (
        ("/", "/invocations"),
        ("/invocations", "/invocations"),
        ("/invocations/", "/invocations"),
        ("/models/m/invoke", "/models/m/invoke"),
    ):
        with Endpoint.local(f"{server.url}{given}") as endpoint:
            endpoint.predict(x=X)
        assert server.received[-1].path == path
    for url in ("127.0.0.1:8080", "ranker-prod"):
        with pytest.raises(BadInputError, match="http://127.0.0.1:8080"):
            Endpoint.local(url)


def test_model_and_trace_are_sent_as_through_sagemaker(server: RuntimeServer) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Endpoint.local(server.url, model="m", version=2) as endpoint:
        endpoint.predict(x=X)
        endpoint.predict(x=X, traceparent=parent)
    named = "tfs-model-name=m,tfs-model-version=2"
    sent = [one.headers["x-amzn-sagemaker-custom-attributes"] for one in server.received]
    assert sent == [named, f"{named},traceparent={parent}"]


@pytest.mark.long
@pytest.mark.parametrize(("reply", "error"), [
    (Reply(400, b'{"error": "no"}'), RefusedError),
    (Reply(429, b'{"error": "no"}'), QueueFullError),
    (Reply(500), ModelFailedError),
    (Reply(503), ModelFailedError),
    (Reply(RESET), ConnectionLostError),
    (Reply(200, b"x", announced_bytes=9), ConnectionLostError),
    (Reply(before_seconds=5), DeadlineExceededError),
], ids=["400", "429", "500", "503", "reset", "cut short", "slow"])  # fmt: skip
def test_every_failure_has_its_error(
    server: RuntimeServer, reply: Reply, error: type[PredictionError]
) -> None:
    server.answer = lambda received: reply
    with (
        Endpoint.local(server.url, attempts=1, timeout_seconds=1) as endpoint,
        pytest.raises(error),
    ):
        endpoint.predict(x=X)


def test_an_answer_cut_short_of_more_than_memory_holds_is_a_lost_connection(
    server: RuntimeServer,
) -> None:
    for length_bytes in [1 << 62, (1 << 63) - 1, 1 << 63]:
        reply = Reply(200, b"x", announced_bytes=length_bytes)
        server.answer = lambda received, reply=reply: reply  # type: ignore[misc]
        with Endpoint.local(server.url, attempts=1) as endpoint, pytest.raises(ConnectionLostError):
            endpoint.predict(x=X)


def test_what_a_container_lacks_is_refused(server: RuntimeServer) -> None:
    for option in ["variant", "target_model"]:
        with (
            Endpoint.local(server.url, **{option: "green"}) as endpoint,
            pytest.raises(BadInputError),
        ):
            endpoint.predict(x=X)
    with Endpoint.local(server.url) as endpoint, pytest.raises(BadInputError, match="asynchronous"):
        endpoint.submit(x=X)
