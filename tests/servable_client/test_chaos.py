"""Nothing lost, nothing asked twice, nothing mixed up, whatever goes wrong on the way."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from servable_client import PredictionError
from tests.servable_client.chaos import Chaos, outcomes
from tests.servable_client.conftest import Connect
from tests.servable_client.runtime_server import RuntimeServer

BATCH = 20
COUNTS = [400, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]


class Ran(NamedTuple):
    outcomes: dict[int, int | PredictionError]
    executed: Counter[int]


Run = Callable[..., Ran]


@pytest.fixture
def run(server: RuntimeServer, connect: Connect) -> Run:
    def one(count: int, **told: Any) -> Ran:
        chaos = Chaos(seed=count)
        server.answer = chaos
        # How long it waits before it asks again is another test's.
        endpoint = connect(sleep=lambda seconds: time.sleep(seconds / 20), **told)
        return Ran(outcomes(endpoint, count, BATCH), chaos.executed)

    return one


@pytest.mark.parametrize("count", COUNTS)
def test_every_prediction_ends_right_or_with_a_name_and_none_is_executed_twice(
    count: int, run: Run
) -> None:
    ran = run(count)
    assert ran.outcomes.keys() == set(range(count))
    wrong = {
        x: found
        for x, found in ran.outcomes.items()
        if found != 2 * x + 1 and not isinstance(found, PredictionError)
    }
    assert wrong == {}
    assert {x: times for x, times in ran.executed.items() if times > 1} == {}


@pytest.mark.long
def test_most_predictions_are_answered_all_the_same(run: Run) -> None:
    alone = {x: found for x, found in run(200).outcomes.items() if x >= 100}
    answered = [found for found in alone.values() if isinstance(found, int)]
    assert len(answered) > 0.75 * len(alone)


@pytest.mark.long
def test_with_retry_unsafe_nearly_all_are_answered(run: Run) -> None:
    found = run(200, retry_unsafe=True).outcomes.values()
    assert sum(isinstance(one, int) for one in found) >= 195


@pytest.mark.long
def test_with_retry_unsafe_some_are_executed_twice(run: Run) -> None:
    assert max(run(200, retry_unsafe=True).executed.values()) > 1
