"""Knee and saturation, on queues whose answers are known and on curves made by hand."""

import statistics
from collections.abc import Callable

import numpy as np
import pytest

from servable.load.load_test import Schedule, measure_curve
from servable.load.objective import Knee, Objective, Saturation, find_knee, find_saturation
from servable.load.page import format_knee
from servable.load.processes import LoadGenerator, Progress
from servable.measured.measurement import LoadStep, Pace
from servable.measured.precision import Interval, Latencies
from servable_scaling.rehearsal.fleet import compute_erlang_c
from tests.servable.tune.measured import ASKED, curve, require, step
from tests.servable.tune.queueing import curve as simulated
from tests.servable.tune.queueing import mmc_highest_rate, mmc_latency_above, simulate

REQUESTS = 8000
# (cores, p99 in ms): work of 10 ms at random; 46 ms is the work's own p99.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0))
HUNDRED = Objective(most_ms=100.0)


@pytest.mark.long
def test_knee_and_saturation_of_known_queues_are_found() -> None:
    found = []  # errors of both, as a share of the known answer
    for cores, most_ms in QUEUES:
        objective = Objective(most_ms=most_ms)
        truth = mmc_highest_rate(99, most_ms, service_rate=100, servers=cores)
        for seed in range(2):
            schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
            measured = simulated(cores, 10.0, schedule, seconds=REQUESTS / 100 / cores, seed=seed)
            at, full = require(find_knee(measured, objective)), require(find_saturation(measured))
            found.append((abs(at.rps.value / truth - 1), abs(full.rps.value / (100 * cores) - 1)))
    assert statistics.median(of_knee for of_knee, _ in found) <= 0.05
    assert statistics.median(of_full for _, of_full in found) <= 0.05


def knee_of(*steps: LoadStep) -> Knee:
    return require(find_knee(curve(*steps), HUNDRED))


def saturation_of(*steps: LoadStep) -> Saturation:
    return require(find_saturation(curve(*steps)))


def test_one_odd_step_changes_neither_the_plateau_nor_the_knee() -> None:
    # The shape of S2's table: more and more users, and from some number on no more throughput.
    noise = {1: 1.0, 2: 0.98, 4: 1.01, 8: 1.0, 16: 0.99, 32: 1.02, 64: 0.98}
    plateau = [
        step(users, min(320.0, 20.0 * users) * by, 50.0 * max(1.0, users / 16))
        for users, by in noise.items()
    ]
    full = saturation_of(*plateau)
    assert full.rps.value == pytest.approx(319, rel=0.015)
    assert 14 <= full.load.value <= 17
    load = knee_of(*plateau).load
    assert (16 < load.value < 32, load.low <= load.value <= load.high) == (True, True)

    full = saturation_of(step(1, 100.0), step(2, 200.0), step(4, 198.0), step(8, 90.0))
    assert full.rps.value == pytest.approx(199, rel=0.02)

    steps = [step(users, 20.0 * users, 50.0) for users in (1, 2, 4, 8)]
    hiccup = step(3, 60.0, 72.0)  # its p99 is 107 ms
    assert knee_of(*steps, hiccup, step(16, 320.0, 400.0)).load.value > 8


def test_failing_steps_do_not_meet_the_objective_and_a_curve_everywhere_says_at_least() -> None:
    first = step(1, 100.0)
    assert knee_of(first, step(2, 200.0, errors={"500": 10})).load.value < 2
    late = Latencies.from_milliseconds([100.0] * 99)
    assert not knee_of(first, step(2, 200.0, 500.0, send_lags=late)).bounded

    found = knee_of(first, step(2, 200.0))
    assert (found.load.value, found.bounded) == (2.0, False)
    assert format_knee(found).startswith("knee: at least 200")
    assert "at least" not in format_knee(knee_of(first, step(2, 200.0, 500.0)))
    assert find_knee(curve(step(1, 100.0, 500.0)), HUNDRED) is None


def test_an_uncertain_step_makes_the_interval_wider() -> None:
    def width(low: float, high: float) -> float:
        known = Interval(value=75.0, low=low, high=high)
        steps = [step(one, 20.0 * one, 5.0 * one, p99_interval_ms=known) for one in (8, 16, 24)]
        return knee_of(*steps).load.high - knee_of(*steps).load.low

    assert width(60.0, 90.0) > 2 * width(74.0, 76.0)

    unknown = Interval(value=100.0, low=0.0, high=200.0)
    full = saturation_of(*(step(users, 100.0, throughput_rps=unknown) for users in (1, 2)))
    assert full.rps.low < 100 < full.rps.high


def loads(schedule: Schedule, target: Callable[[int], LoadStep]) -> list[float]:
    steps: list[LoadStep] = []
    while (load := schedule.choose_next_load(steps)) is not None:
        steps.append(target(round(load)))
        assert len(steps) < 40, "it never ends"
    return [one.load for one in steps]


def full_at_20(users: int) -> LoadStep:
    """20 requests/s for each user until there are 20; p99 is one and a half of the median."""
    return step(users, 20.0 * min(users, 20), 50.0 * max(1.0, users / 20))


def test_loads_are_doubled_until_it_is_flat_and_refined_around_the_knee() -> None:
    assert loads(Schedule(loop="closed"), full_at_20)[:7] == [1, 2, 4, 8, 16, 32, 64]
    met = Schedule(loop="closed", objective=Objective(most_ms=1e6))
    assert loads(met, full_at_20)[-2:] == [64, 128]  # flat twice

    parsed = loads(Schedule(loop="closed", objective=HUNDRED), full_at_20)
    assert len(parsed) == len(set(parsed))
    # p99 is 75 ms up to 20 users, and 100 ms at 26.7.
    below, above = max(x for x in parsed if x <= 26), min(x for x in parsed if x > 26)
    assert above / below <= 1.1

    def open_step(rate: int) -> LoadStep:
        kept_up = min(rate, 100)
        return step(None, kept_up, rate_rps=rate, seconds=101.0 / rate)

    assert loads(Schedule(loop="open", first=20), open_step)[:4] == [20, 40, 80, 160]


def test_it_ends_at_the_most_at_failures_and_goes_further_while_more_is_borne() -> None:
    parsed = loads(Schedule(loop="closed", most=50), lambda users: step(users, 10.0 * users))
    assert max(parsed) == 50
    failing = loads(Schedule(loop="closed"), lambda users: step(users, 1.0, errors={"500": 900}))
    assert failing == [1]
    assert loads(Schedule(loop="closed", fixed=(8, 1, 4)), full_at_20) == [8, 1, 4]
    flat = [[step(1, 100.0), step(2, 100.0, errors=errors)] for errors in ({"500": 900}, {})]
    ends = [Schedule(loop="closed").describe_end(steps) for steps in flat]
    assert ends == ["failing", "saturated"]

    schedule = Schedule(loop="closed", fixed=(2, 4), objective=HUNDRED, further=3)
    assert loads(schedule, full_at_20) == [2, 4, 8, 16, 32]
    schedule = Schedule(loop="closed", fixed=(20, 40), objective=HUNDRED, further=3)
    assert loads(schedule, full_at_20) == [20, 40]


class LateOnce(LoadGenerator):
    """Its first step was sent late, the others were not; no process is started."""

    def __init__(self) -> None:
        self.steps = 0

    def run_step(
        self, load: float, pace: Pace, progress: Progress = lambda found: None
    ) -> LoadStep:
        self.steps += 1
        lags = Latencies.from_milliseconds([60.0 if self.steps == 1 else 0.1])
        return step(round(load), 100.0, send_lags=lags)


def test_a_step_that_was_sent_late_is_measured_once_more() -> None:
    schedule = Schedule(loop="closed", fixed=(1.0, 2.0))
    found = measure_curve(LateOnce(), schedule, Pace(), ASKED)
    assert [one.rejection for one in found.steps] == [None, None]


@pytest.mark.long
def test_the_simulator_agrees_with_erlang() -> None:
    # Source: Erlang C table, 5 servers and 4 erlangs offered: 0.5541.
    assert compute_erlang_c(5, 4.0) == pytest.approx(0.5541, abs=5e-5)
    for percent in [50, 95]:
        run = simulate(4, 10.0, load=320, loop="open", seconds=150, seed=1)
        measured = float(np.percentile(run.latencies_ms, percent)) / 1000
        above = mmc_latency_above(measured, rate=320, service_rate=100, servers=4)
        assert above == pytest.approx(1 - percent / 100, rel=0.1)
    run = simulate(4, 10.0, load=16, loop="closed", seconds=50)
    assert run.throughput_rps == pytest.approx(400, rel=0.02)

    rate = mmc_highest_rate(99, 60, service_rate=100, servers=4)
    above = mmc_latency_above(0.060, rate=rate, service_rate=100, servers=4)
    assert above == pytest.approx(0.01, rel=1e-3)
    once, again = (simulate(4, 10.0, load=6, loop="closed", seconds=2, seed=3) for _ in range(2))
    assert once.finished_at.tolist() == again.finished_at.tolist()
