"""Which load comes next, against targets that are a formula."""

from collections.abc import Callable

import pytest

from servable.load.load_generator import LoadGenerator, Progress
from servable.load.load_target import Pace
from servable.load.load_test import Schedule, measure
from servable.load.measurement import LoadStep
from servable.load.objective import Objective
from servable.measured.precision import Latencies
from tests.servable.tune.measured import ASKED, step

HUNDRED = Objective(most_ms=100.0)


def loads(schedule: Schedule, target: Callable[[int], LoadStep]) -> list[float]:
    steps: list[LoadStep] = []
    while (load := schedule.next(steps)) is not None:
        steps.append(target(round(load)))
        assert len(steps) < 40, "it never ends"
    return [one.load for one in steps]


def full_at_20(users: int) -> LoadStep:
    """20 requests/s for each user until there are 20; p99 is one and a half of the median."""
    return step(users, 20.0 * min(users, 20), 50.0 * max(1.0, users / 20))


def test_users_are_doubled_until_it_is_flat_and_refined_around_the_knee() -> None:
    assert loads(Schedule(loop="closed"), full_at_20)[:7] == [1, 2, 4, 8, 16, 32, 64]

    parsed = sorted(loads(Schedule(loop="closed", objective=HUNDRED), full_at_20))
    # p99 is 75 ms up to 20 users, and 100 ms at 26.7.
    below, above = max(x for x in parsed if x <= 26), min(x for x in parsed if x > 26)
    assert above / below <= 1.1
    parsed = loads(Schedule(loop="closed", objective=HUNDRED), full_at_20)
    assert len(parsed) == len(set(parsed))


def test_it_ends_at_the_most_at_failures_and_after_given_loads() -> None:
    parsed = loads(Schedule(loop="closed", most=50), lambda users: step(users, 10.0 * users))
    assert max(parsed) == 50
    failing = loads(Schedule(loop="closed"), lambda users: step(users, 1.0, errors={"500": 900}))
    assert failing == [1]
    assert loads(Schedule(loop="closed", fixed=(8, 1, 4)), full_at_20) == [8, 1, 4]


@pytest.mark.parametrize(("errors", "ended"), [({"500": 900}, "failing"), ({}, "saturated")])
def test_it_says_why_it_ended(errors: dict[str, int], ended: str) -> None:
    flat = [step(1, 100.0), step(2, 100.0, errors=errors)]
    assert Schedule(loop="closed").ended(flat) == ended


def test_an_open_loop_is_raised_until_the_answers_fall_behind() -> None:
    def open_step(rate: int) -> LoadStep:
        kept_up = min(rate, 100)
        return step(None, kept_up, rate_rps=rate, seconds=101.0 / rate)

    assert loads(Schedule(loop="open", first=20), open_step)[:4] == [20, 40, 80, 160]


def test_after_fixed_loads_it_goes_further_while_more_is_borne() -> None:
    schedule = Schedule(loop="closed", fixed=(2, 4), objective=HUNDRED, further=3)
    assert loads(schedule, full_at_20) == [2, 4, 8, 16, 32]
    schedule = Schedule(loop="closed", fixed=(20, 40), objective=HUNDRED, further=3)
    assert loads(schedule, full_at_20) == [20, 40]


class LateOnce(LoadGenerator):
    """Its first step was sent late, the others were not; no process is started."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, load: float, pace: Pace, progress: Progress = lambda found: None) -> LoadStep:
        self.steps += 1
        return step(round(load), 100.0, send_lags=Latencies.of([60.0 if self.steps == 1 else 0.1]))


def test_a_step_that_was_sent_late_is_measured_once_more() -> None:
    schedule = Schedule(loop="closed", fixed=(1.0, 2.0))
    found = measure(LateOnce(), schedule, Pace(), ASKED)
    assert [one.refused for one in found.steps] == [None, None]
