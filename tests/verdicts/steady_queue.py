"""M/D/1 queues in steady state, measured by the load gate: long queues break a busy instance's objective.

Requests arrive at random moments, and one server takes the same time for each (Kleinrock, Queueing Systems,
volume 1, 1975, chapter 5).
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray

from servable.load.gate import evaluate_gate
from servable.load.objective import Objective
from servable.measured.measurement import BLOCK_SECONDS, LoadCurve, LoadStep
from servable.measured.precision import Interval, Latencies
from tests.servable.tune.queueing import SIMULATED

# (utilization, requests/s, share of slow requests, seconds): a share above the allowed 1 % must not pass.
Case = tuple[float, float, float, float]
BROKEN: tuple[Case, ...] = (
    *itertools.product((0.6, 0.8, 0.9, 0.95), (45.0,), (0.015, 0.02), (120.0, 200.0)),
)
KEPT = ((0.6, 45.0, 0.005, 600.0), (0.8, 45.0, 0.002, 1800.0))
Times = NDArray[np.float64]


def simulate(
    utilization: float, rate: float, seconds: float, chance: np.random.Generator
) -> tuple[Times, Times]:
    """Return when each request is due and how long it takes, in seconds, after a long warm-up."""
    service, warm_up = utilization / rate, 20_000 / rate
    due = np.cumsum(chance.exponential(1 / rate, int(rate * (seconds + warm_up) * 1.1) + 100))
    # Lindley's recursion in closed form: the wait is the walk's height above its lowest point so far.
    walk = np.concatenate(([0.0], np.cumsum(service - np.diff(due))))
    took = walk - np.minimum.accumulate(np.minimum(walk, 0)) + service
    measured = (due >= warm_up) & (due < warm_up + seconds)
    return due[measured] - warm_up, took[measured]


def slow_seconds(utilization: float, share: float) -> float:
    """Return the latency that `share` of the requests exceed, at one request per second."""
    _, took = simulate(utilization, 1.0, 4e6, np.random.default_rng(1))
    return float(np.quantile(took, 1 - share))


def measure(due: Times, took: Times, seconds: float) -> LoadStep:
    """Return what the load generator would report of these requests."""
    latencies = Latencies.from_milliseconds(1000 * took)
    blocks = math.ceil(seconds / BLOCK_SECONDS)
    ends = np.searchsorted(due, BLOCK_SECONDS * np.arange(1, blocks))
    parts = [Latencies.from_milliseconds(1000 * part) for part in np.split(took, ends)]
    rate = len(due) / seconds
    return LoadStep(
        rate_rps=rate,
        warm_up_seconds=0,
        seconds=seconds,
        throughput_rps=Interval(value=rate, low=rate, high=rate),
        latencies=latencies,
        tails=tuple(part.select_above(latencies.p95_ms) for part in parts),
        answered=tuple(part.count for part in parts),
        failures=(0,) * blocks,
        send_lags=Latencies(),
        generator_cpu_share=0.0,
    )


def judge(due: Times, took: Times, seconds: float, objective_seconds: float) -> str:
    """Return the gate's verdict on these requests."""
    curve = LoadCurve(asked=SIMULATED, loop="open", steps=(measure(due, took, seconds),))
    return evaluate_gate(curve, Objective(most_ms=1000 * objective_seconds)).held


def run_trials(seed: int, count: int) -> Iterator[tuple[str, bool, list[str]]]:
    """Run the gate `count` times at each utilization if the objective is broken, else half as often."""
    with ProcessPoolExecutor(2) as pool:

        def run(cases: Iterable[Case]) -> list[str]:
            jobs = [(seed, number, count // 4, case) for number, case in enumerate(cases)]
            return [verdict for held in pool.map(_run_case, jobs) for verdict in held]

        for utilization, cases in itertools.groupby(BROKEN, key=lambda case: case[0]):
            yield f"queue, {utilization:.0%} busy, 1.5% or 2% slow, 2 to 3 min", False, run(cases)
        for case in KEPT:
            utilization, _, share, seconds = case
            label = f"queue, {utilization:.0%} busy, {share:.1%} slow, {seconds / 60:g} min"
            yield label, True, run([case] * 2)


def _run_case(job: tuple[int, int, int, Case]) -> list[str]:
    seed, number, count, (utilization, rate, share, seconds) = job
    chance = np.random.default_rng([seed, number, int(100 * utilization)])
    limit = slow_seconds(utilization, share) / rate
    runs = (simulate(utilization, rate, seconds, chance) for _ in range(count))
    return [judge(due, took, seconds, limit) for due, took in runs]
