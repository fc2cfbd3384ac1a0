"""Again or not, how long in between, and an endpoint at zero copies that is waited for."""

from typing import Any

import numpy as np
import pytest

from servable_client import (
    AsleepError,
    BadAnswerError,
    BusyError,
    ConnectionLostError,
    DeadlineExceededError,
    FakeEndpoint,
    ModelFailedError,
    PredictionError,
    QueueFullError,
    RefusedError,
    ThrottledError,
    UnreachableError,
)
from servable_client.exchange import Deadline
from servable_client.retries import WAKE_LOOK_SECONDS, Retries, compute_wait_seconds
from tests.servable_client.conftest import Connect
from tests.servable_client.runtime_server import (
    Received,
    Reply,
    Server,
    doubled,
    model_error,
    service_error,
)

SAFE = [UnreachableError, BusyError, ThrottledError, QueueFullError]
UNSAFE = [ConnectionLostError, DeadlineExceededError, ModelFailedError]
NEVER = [RefusedError, BadAnswerError]


def predict(failures: list[PredictionError | None], **told: Any) -> FakeEndpoint:
    endpoint = FakeEndpoint(lambda x: {"y": x}, failures=failures)
    endpoint.predict(x=[1.0], **told)
    return endpoint


def test_what_was_not_executed_or_may_be_twice_is_repeated() -> None:
    for kind in SAFE:
        assert len(predict([kind("no"), kind("no")]).calls) == 1
    for kind in UNSAFE:
        assert len(predict([kind("no")], retry_unsafe=True).calls) == 1


def test_what_may_have_been_executed_or_is_wrong_is_not_repeated() -> None:
    for kind in UNSAFE + NEVER:
        with pytest.raises(kind):
            predict([kind("no")])
    for kind in NEVER:
        with pytest.raises(kind):
            predict([kind("no")], retry_unsafe=True)


def test_a_failure_says_whether_and_how_often_it_was_tried() -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        Retries().run(lambda seconds: None, Deadline(-1), unsafe=False)
    assert caught.value.executed == "no"
    with pytest.raises(ThrottledError, match=r"no \(3 attempts\)"):
        FakeEndpoint(lambda x: {}, failures=[ThrottledError("no")] * 9, attempts=3).predict(x=1)


def test_an_attempt_knows_what_is_left_and_no_wait_is_longer() -> None:
    assert 0 < Retries().run(lambda seconds: seconds, Deadline(9), unsafe=False) <= 9
    slept: list[float] = []

    def attempt(seconds: float) -> None:
        raise ThrottledError("no", retry_after_seconds=100)

    with pytest.raises(ThrottledError):
        Retries(sleep=slept.append).run(attempt, Deadline(10), unsafe=False)
    assert slept == []


def test_waits_double_up_to_a_bound_and_are_as_long_as_asked_for() -> None:
    assert all(compute_wait_seconds(1, 3.0) >= 3.0 for _ in range(100))
    for failed, most_seconds in [(1, 0.1), (2, 0.2), (5, 1.6), (50, 5.0)]:
        waits = [compute_wait_seconds(failed, None) for _ in range(2000)]
        assert most_seconds / 2 < max(waits) <= most_seconds


X = np.arange(6, dtype=np.float32).reshape(2, 3)
ASLEEP = service_error(
    400,
    "ValidationError",
    "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
    "in-progress (if configured) or try to increase the capacity by invoking "
    "UpdateInferenceComponentRuntimeConfig API.",
)


def asleep_for(server: Server, requests: int, then: Reply | None = None) -> None:
    def answer(received: Received) -> Reply:
        if len(server.received) <= requests:
            return ASLEEP
        return then or doubled(received)

    server.answer = answer


def test_without_wake_seconds_a_request_names_its_component_and_is_told_of_the_sleep(
    server: Server, connect: Connect
) -> None:
    connect(component="ranker-primary").predict(x=X)
    assert server.received[0].headers["x-amzn-sagemaker-inference-component"] == "ranker-primary"
    asleep_for(server, 99)
    with pytest.raises(AsleepError, match="wake_seconds") as raised:
        connect(attempts=1).predict(x=X)
    assert (raised.value.executed, isinstance(raised.value, BusyError)) == ("no", True)


def test_a_caller_waits_beyond_its_timeout_to_wake(server: Server, connect: Connect) -> None:
    asleep_for(server, 30)
    told: list[float] = []
    slept: list[float] = []
    ranker = connect(wake_seconds=900, waiting=told.append, sleep=slept.append, timeout_seconds=20)
    np.testing.assert_array_equal(ranker.predict(x=X)["y"], X * 2)
    assert (told, slept) == ([900], [WAKE_LOOK_SECONDS] * 30)


def test_one_that_wakes_broken_or_does_not_wake_is_given_up(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep_for(server, 2, model_error(500))
    with pytest.raises(ModelFailedError):
        connect(wake_seconds=900, sleep=lambda seconds: None).predict(x=X)
    assert len(server.received) == 3
    asleep_for(server, 10**6)
    with pytest.raises(AsleepError, match="did not start within 0.2 s"):
        connect(wake_seconds=0.2, sleep=lambda seconds: None).predict(x=X)


def test_a_caller_s_own_mistake_is_no_sleep(server: Server, connect: Connect) -> None:
    wrong: Any = service_error(400, "ValidationError", "Inference Component x not found.")
    server.answer = lambda received: wrong
    with pytest.raises(Exception, match="not found"):
        connect(component="x", wake_seconds=900).predict(x=X)
    assert len(server.received) == 1
