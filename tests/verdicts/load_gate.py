"""Share of right verdicts of `servable load --gate` on made-up endpoints.

An endpoint breaks its objective by a tenth of its budget (1.1 % of the requests are slow) or keeps it with
half of it (0.5 %). Slow requests come alone, together in stalls or pauses, or with a load that wanders;
requests arrive evenly or in bursts.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servable.load.gate import EventCount, Grouping, compute_step_seconds
from servable.measured.measurement import BLOCK_SECONDS

BROKEN, KEPT = 0.011, 0.005
RUNS = ((30.0, 10.0), (60.0, 50.0), (120.0, 30.0), (60.0, 100.0))  # (--step-seconds, requests/s)
Case = tuple[str, float, tuple[float, float], bool]
Chance = np.random.Generator
Times = NDArray[np.float64]


def alone(due: Times, share: float, seconds: float, chance: Chance) -> NDArray[np.bool_]:
    return chance.random(len(due)) < share


def stalls(due: Times, share: float, seconds: float, chance: Chance, *, count: float = 20) -> Any:
    """About `count` stalls in a run at random moments, each of a length of its own."""
    slow = np.zeros(len(due), bool)
    for _ in range(int(chance.poisson(count))):
        begins, lasts = chance.uniform(0, seconds), chance.exponential(share * seconds / count)
        slow |= (due >= begins) & (due < begins + lasts)
    return slow


def pauses(due: Times, share: float, seconds: float, chance: Chance) -> Any:
    """A collector's, of 50 to 500 ms and 5 s apart on the average: slow is who waits long enough in one."""
    slow = np.zeros(len(due), bool)
    # A length between 50 and 500 ms is beyond `borne` by (500 - borne)² / 900 on the average.
    borne_ms = 500 - math.sqrt(900 * 5000 * share)
    for begins in chance.uniform(0, seconds, chance.poisson(seconds / 5)):
        slow |= (due >= begins) & (due < begins + (chance.uniform(50, 500) - borne_ms) / 1000)
    return slow


def wandering(due: Times, share: float, seconds: float, chance: Chance) -> Any:
    """The latency follows a load that resembles itself for 5 s, and a quarter of its variance does not."""
    steps, load = chance.normal(0, 1, int(10 * seconds) + 1).tolist(), [float(chance.normal())]
    kept = math.exp(-0.1 / 5)  # of a tenth of a second
    for each in steps:
        load.append(kept * load[-1] + math.sqrt(1 - kept**2) * each)
    own = chance.normal(0, 0.5, len(due))
    latency = math.sqrt(0.75) * np.array(load)[(10 * due).astype(int)] + own
    return latency > NormalDist().inv_cdf(1 - share)


KINDS: Mapping[str, Callable[..., Any]] = {
    "alone": alone,
    "stalls": stalls,
    "pauses": pauses,
    "few_stalls": partial(stalls, count=10),
    # One in a run, on the average: a third of the runs sees none.
    "rare_stalls": partial(stalls, count=1),
    "wandering": wandering,
}


def arrivals(rate: float, seconds: float, bursts: bool, chance: Chance) -> Times:
    """Random moments; in bursts twice the rate for a second, then half of it for two."""
    drawn = np.sort(chance.uniform(0, seconds, chance.poisson(rate * seconds)))
    within = drawn % 3
    early = np.where(within < 2, within / 2, 1 + (within - 2) * 2)
    return drawn - within + early if bursts else drawn


def run(kind: str, share: float, seconds: float, rate: float, bursts: bool, chance: Chance) -> str:
    """Return the verdict on a run as long as the gate makes it."""
    seconds = compute_step_seconds(seconds, [rate])
    due = arrivals(rate, seconds, bursts, chance)
    slow = KINDS[kind](due, share, seconds, chance)
    blocks = np.bincount((due[slow] / BLOCK_SECONDS).astype(int), minlength=int(2 * seconds))
    together = Grouping.from_counts(blocks.tolist())
    return EventCount(int(slow.sum()), len(due), together).evaluate(0.01)


def run_trials(seed: int, count: int) -> Iterator[tuple[str, bool, list[str]]]:
    """Run the gate `count` times at each rate, length, and way to arrive."""
    with ProcessPoolExecutor(2) as pool:
        for kind, share in itertools.product(KINDS, (BROKEN, KEPT)):
            cases = itertools.product(RUNS, (False, True))
            jobs = [(seed, at, count, (kind, share, *case)) for at, case in enumerate(cases)]
            verdicts = [verdict for held in pool.map(_run_case, jobs) for verdict in held]
            yield f"{kind.replace('_', ' ')}, {share:.1%} slow", share == KEPT, verdicts


def _run_case(job: tuple[int, int, int, Case]) -> list[str]:
    seed, number, count, (kind, share, (seconds, rate), bursts) = job
    chance = np.random.default_rng([seed, number, [*KINDS].index(kind), int(share == KEPT)])
    return [run(kind, share, seconds, rate, bursts, chance) for _ in range(count)]
