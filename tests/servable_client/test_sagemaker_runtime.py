"""What goes to SageMaker or to a container, what comes back, and what is never sent twice."""

import io
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from servable_client import (
    BadAnswerError,
    BadInputError,
    BodyTooLargeError,
    BusyError,
    ConnectionLostError,
    DeadlineExceededError,
    Endpoint,
    EndpointNotFoundError,
    ModelFailedError,
    NotAllowedError,
    PredictionError,
    QueueFullError,
    RefusedError,
    ThrottledError,
)
from servable_client.exchange import Deadline, read_body
from tests.servable_client.conftest import Connect
from tests.servable_client.runtime_server import (
    RESET,
    Received,
    Reply,
    Server,
    doubled,
    model_error,
    service_error,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_FOUND = "Endpoint ranker of account 123456789012 not found."


def test_arrays_go_in_and_come_out_over_a_kept_connection(connect: Connect, server: Server) -> None:
    endpoint = connect()
    for _ in range(5):
        np.testing.assert_array_equal(endpoint.predict(x=X)["y"], X * 2)
    assert len(server.connections) == 1

    def answer(received: Received) -> Reply:
        reply = doubled(received)
        reply.headers["x-Amzn-Invoked-Production-Variant"] = "green"
        return reply

    server.answer = answer
    assert endpoint.predict(x=X).variant == "green"


ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"


def test_who_is_to_answer_and_the_trace_are_in_headers(server: Server, connect: Connect) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"variant": "green"}, "x-amzn-sagemaker-target-variant", "green"),
        ({"target_model": "a.tar.gz"}, "x-amzn-sagemaker-target-model", "a.tar.gz"),
        ({"inference_id": "42"}, "x-amzn-sagemaker-inference-id", "42"),
        ({"model": "m"}, ATTRIBUTES, "tfs-model-name=m"),
        ({"version": 7}, ATTRIBUTES, "tfs-model-version=7"),
        ({"signature": "s"}, ATTRIBUTES, "tfs-signature-name=s"),
        ({"traceparent": PARENT}, ATTRIBUTES, f"traceparent={PARENT}"),
        ({"inference_id": "42"}, ATTRIBUTES, "inference-id=42"),
    ]
    endpoint = connect()
    for options, header, sent in cases:
        endpoint.predict(x=X, **options)
        assert server.received[-1].headers[header] == sent
    endpoint.predict(x=X, traceparent="00-1-2-3")
    assert ATTRIBUTES not in server.received[-1].headers
    connect(variant="green", component="c").predict(x=X)
    named = server.received[-1].headers
    assert named["x-amzn-sagemaker-target-variant"] == "green"
    assert named["x-amzn-sagemaker-inference-component"] == "c"
    server.received.clear()
    endpoint.predict(x=X, split=1, traceparent=PARENT)
    assert len(server.received) > 1
    assert {one.headers[ATTRIBUTES] for one in server.received} == {f"traceparent={PARENT}"}


def test_the_signature_is_in_a_json_body_and_an_inference_id_has_at_most_64_characters(
    connect: Connect, server: Server
) -> None:
    connect().predict(x=X, inference_id="a" * 64)
    with pytest.raises(BadInputError, match="64"):
        connect().predict(x=X, inference_id="a" * 65)
    one = Reply(200, b'{"outputs": [1]}', {"Content-Type": "application/json"})
    server.answer = lambda received: one
    connect().predict(x=X, signature="s", format="json")
    assert b'"signature_name":"s"' in server.received[-1].body


FAILURES = [
    (model_error(400), RefusedError),
    (model_error(404), EndpointNotFoundError),
    (model_error(415), RefusedError),
    (model_error(429), QueueFullError),
    (model_error(500), ModelFailedError),
    (model_error(503), ModelFailedError),
    (model_error(0), ModelFailedError),
    (service_error(400, "ThrottlingException"), ThrottledError),
    (service_error(429, "TooManyRequestsException"), ThrottledError),
    (service_error(429, "ModelNotReadyException"), BusyError),
    (service_error(403, "AccessDeniedException"), NotAllowedError),
    (service_error(403, "ExpiredTokenException"), NotAllowedError),
    (service_error(400, "ValidationError", NOT_FOUND), EndpointNotFoundError),
    (service_error(400, "ValidationError"), RefusedError),
    (service_error(500, "InternalFailure"), ModelFailedError),
    (service_error(503, "ServiceUnavailable"), ModelFailedError),
    (service_error(530, "InternalDependencyException"), ModelFailedError),
    (Reply(RESET), ConnectionLostError),
    (Reply(200, b"{", {"Content-Type": "application/json"}, announced_bytes=9),
     ConnectionLostError),
]  # fmt: skip
IDS = [
    f"{number}-{reply.status}-{error.__name__}" for number, (reply, error) in enumerate(FAILURES)
]


@pytest.mark.parametrize(("reply", "error"), FAILURES, ids=IDS)
def test_every_failure_has_its_error_and_may_have_been_executed_or_not(
    server: Server, connect: Connect, reply: Reply, error: type[PredictionError]
) -> None:
    server.answer = lambda received: reply
    with pytest.raises(error) as caught:
        connect(attempts=1).predict(x=X)
    assert type(caught.value) is error
    if error not in (ModelFailedError, ConnectionLostError):
        return
    server.received.clear()
    with pytest.raises(error):
        connect().predict(x=X)
    assert len(server.received) == 1

    server.received.clear()
    server.answer = lambda received: reply if len(server.received) == 1 else doubled(received)
    repeating = connect(retry_unsafe=True, sleep=lambda seconds: None)
    np.testing.assert_array_equal(repeating.predict(x=X)["y"], X * 2)


def test_what_is_wrong_is_never_sent_again_unsafe(server: Server, connect: Connect) -> None:
    for status in [400, 404, 413, 415]:
        server.received.clear()
        reply = model_error(status)
        server.answer = lambda received, reply=reply: reply  # type: ignore[misc]
        with pytest.raises(RefusedError):
            connect(retry_unsafe=True, format="protobuf").predict(x=X)
        assert len(server.received) == 1


@pytest.mark.parametrize("reply", [
    model_error(429), service_error(400, "ThrottlingException"),
    service_error(429, "ModelNotReadyException"),
], ids=["queue full", "throttled", "loading"])  # fmt: skip
def test_what_was_turned_away_is_sent_again(server: Server, connect: Connect, reply: Reply) -> None:
    server.answer = lambda received: reply if len(server.received) < 3 else doubled(received)
    np.testing.assert_array_equal(connect(sleep=lambda seconds: None).predict(x=X)["y"], X * 2)


def test_the_containers_status_and_words_are_told(server: Server, connect: Connect) -> None:
    server.answer = lambda received: model_error(400, '{"error": "x: got 3 rows"}')
    with pytest.raises(RefusedError, match=r"ranker: the container returns 400: x: got 3 rows$"):
        connect().predict(x=X)
    server.answer = lambda received: model_error(503)
    with pytest.raises(ModelFailedError) as caught:
        connect().predict(x=X)
    assert caught.value.status == 503


def test_a_container_without_handler_is_sent_json(server: Server, connect: Connect) -> None:
    def answer(received: Received) -> Reply:
        if received.headers["content-type"] != "application/json":
            return model_error(415)
        return Reply(200, b'{"outputs": [[2.5]]}', {"Content-Type": "application/json"})

    server.answer = answer
    endpoint = connect()
    assert endpoint.predict(x=X).only.tolist() == [[2.5]]
    endpoint.predict(x=X)
    assert len(server.received) == 3


def test_bodies_are_sent_up_to_the_limit(server: Server, connect: Connect) -> None:
    with pytest.raises(BodyTooLargeError, match="cut the batch with split="):
        connect().predict(x=np.zeros(6_291_456, np.uint8))
    assert server.received == []

    server.answer = lambda received: Reply(200, b"1", {"Content-Type": "text/plain"})
    connect().invoke(b"x" * 6_291_456)
    assert len(server.received[0].body) == 6_291_456

    server.answer = lambda received: Reply(200, b"1", {"Content-Type": "text/plain"})
    knowing = connect(largest_body_bytes=6_291_457)
    knowing.invoke(b"x" * 6_291_457)
    with pytest.raises(BodyTooLargeError, match="6,291,457"):
        knowing.invoke(b"x" * 6_291_458)
    for size, taken in [(25_000_000, True), (25_000_001, False), (0, False)]:
        with nullcontext() if taken else pytest.raises(BadInputError, match="1 to 25,000,000"):
            connect(largest_body_bytes=size)


def test_a_deadline_ends_a_call_that_may_have_run(server: Server, connect: Connect) -> None:
    server.answer = lambda received: Reply(before_seconds=30.0)
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError) as caught:
        connect().predict(x=X, timeout_seconds=0.2)
    assert time.monotonic() - began < 20  # a machine may be busy; the server waits longer
    assert caught.value.executed == "maybe"


def test_throttling_holds_back_the_other_requests(server: Server, connect: Connect) -> None:
    throttled = service_error(400, "ThrottlingException", **{"Retry-After": "0.3"})
    times: list[float] = []

    def answer(received: Received) -> Reply:
        times.append(time.monotonic())
        return throttled if len(times) == 1 else doubled(received)

    server.answer = answer
    connect(connections=1).predict(x=np.arange(4.0), split=2)
    assert times[1] - times[0] >= 0.3


@pytest.mark.parametrize("missing", ["credentials", "region"])
def test_what_boto3_lacks_is_said(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = ["AWS_REGION", "AWS_DEFAULT_REGION"]
    for name in regions if missing == "region" else ["AWS_ACCESS_KEY_ID"]:
        monkeypatch.delenv(name)
    with pytest.raises(PredictionError, match=missing), Endpoint("ranker") as endpoint:
        endpoint.predict(x=X)


def test_an_answer_without_a_length_or_after_the_deadline_is_refused() -> None:
    for length in ["", "1x", "-1", "\u0661", "9" * 5000]:
        with pytest.raises(BadAnswerError, match="is not chunked"):
            read_body(io.BytesIO(b"x"), {"content-length": length}, Deadline(60))
    stream = io.BytesIO(bytes(3 << 20))
    with pytest.raises(DeadlineExceededError, match="was incomplete"):
        read_body(stream, {"content-length": str(3 << 20)}, Deadline(0))
    assert stream.closed


def test_an_answer_of_a_stated_length_or_in_chunks_is_read_whole() -> None:
    cases: list[dict[str, str]] = [{"content-length": "1"}, {"transfer-encoding": "Chunked"}]
    for headers in cases:
        assert read_body(io.BytesIO(b"x"), headers, Deadline(60)) == b"x"
    for length in ["1", str(3 << 20), "9" * 5000]:
        body = bytes(3 << 20)
        found = read_body(io.BytesIO(body), {"content-length": length}, Deadline(60), framed=False)
        assert found == body


def test_arrays_go_in_and_come_out_at_every_address_serve_prints(server: Server) -> None:
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


def test_model_and_trace_are_sent_as_through_sagemaker(server: Server) -> None:
    with Endpoint.local(server.url, model="m", version=2) as endpoint:
        endpoint.predict(x=X)
        endpoint.predict(x=X, traceparent=PARENT)
    named = "tfs-model-name=m,tfs-model-version=2"
    sent = [one.headers["x-amzn-sagemaker-custom-attributes"] for one in server.received]
    assert sent == [named, f"{named},traceparent={PARENT}"]


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
    server: Server, reply: Reply, error: type[PredictionError]
) -> None:
    server.answer = lambda received: reply
    with (
        Endpoint.local(server.url, attempts=1, timeout_seconds=1) as endpoint,
        pytest.raises(error),
    ):
        endpoint.predict(x=X)


def test_an_answer_cut_short_beyond_memory_is_a_lost_connection(server: Server) -> None:
    for length_bytes in [1 << 62, (1 << 63) - 1, 1 << 63]:
        reply = Reply(200, b"x", announced_bytes=length_bytes)
        server.answer = lambda received, reply=reply: reply  # type: ignore[misc]
        with Endpoint.local(server.url, attempts=1) as endpoint, pytest.raises(ConnectionLostError):
            endpoint.predict(x=X)


def test_what_a_container_lacks_is_refused(server: Server) -> None:
    for option in ["variant", "target_model"]:
        with (
            Endpoint.local(server.url, **{option: "green"}) as endpoint,
            pytest.raises(BadInputError),
        ):
            endpoint.predict(x=X)
    with Endpoint.local(server.url) as endpoint, pytest.raises(BadInputError, match="asynchronous"):
        endpoint.submit(x=X)
