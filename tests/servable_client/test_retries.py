"""Again or not, and how long in between."""

from typing import Any

import pytest

from servable_client import FakeEndpoint
from servable_client.errors import (
    BadAnswerError,
    BusyError,
    ConnectionLostError,
    DeadlineExceededError,
    ModelFailedError,
    PredictionError,
    QueueFullError,
    RefusedError,
    ThrottledError,
    UnreachableError,
)
from servable_client.exchange import Deadline
from servable_client.retries import Retries, compute_wait_seconds

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
