"""Share of right verdicts of `servable load --gate` on made-up endpoints.

python -m benchmarks.verdicts.load_gate --seed 7 --count 2000

An endpoint breaks its objective by a tenth of its budget (1.1 % of the requests are slow) or keeps it with
half of it (0.5 %). Slow requests come alone or together in stalls; requests arrive evenly or in bursts.
"""

import argparse
import itertools
import secrets
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servable.latencies import Latencies
from servable.load.gate import expected_seconds, verdict
from servable.load.generator.step_report import BLOCK_SECONDS
from servable.load.measurement import LoadCurve, LoadStep, MeasuredTarget
from servable.load.objective import Objective
from servable.precision import Interval

LIMIT_MS, FAST_MS, SLOW_MS = 100.0, 10.0, 300.0
BROKEN, KEPT = 0.011, 0.005
RUNS = ((30.0, 10.0), (60.0, 50.0), (120.0, 30.0), (60.0, 100.0))  # (--step-seconds, requests/s)
ASKED = MeasuredTarget(target="local", address="", started_at="2026-11-24T00:00:00Z", machine="")
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


def few_stalls(due: Times, share: float, seconds: float, chance: Chance) -> Any:
    return stalls(due, share, seconds, chance, count=10)


def rare_stalls(due: Times, share: float, seconds: float, chance: Chance) -> Any:
    """One stall in a run, on the average: a third of the runs sees none."""
    return stalls(due, share, seconds, chance, count=1)


KINDS = {each.__name__: each for each in (alone, stalls, few_stalls, rare_stalls)}


def arrivals(rate: float, seconds: float, bursts: bool, chance: Chance) -> Times:
    """Random moments; in bursts twice the rate for a second, then half of it for two."""
    drawn = np.sort(chance.uniform(0, seconds, chance.poisson(rate * seconds)))
    within = drawn % 3
    early = np.where(within < 2, within / 2, 1 + (within - 2) * 2)
    return drawn - within + early if bursts else drawn


def run(kind: str, share: float, seconds: float, rate: float, bursts: bool, chance: Chance) -> str:
    """Return the verdict on a run as long as the gate makes it."""
    seconds = expected_seconds(seconds, [rate])
    due = arrivals(rate, seconds, bursts, chance)
    took = np.where(KINDS[kind](due, share, seconds, chance), SLOW_MS, FAST_MS)
    blocks = np.bincount(
        (due[took > LIMIT_MS] / BLOCK_SECONDS).astype(int), minlength=int(2 * seconds)
    )
    rps = len(due) / seconds
    step = LoadStep(
        rate_rps=rate,
        warm_up_seconds=0,
        seconds=seconds,
        throughput_rps=Interval(value=rps, low=rps, high=rps),
        latencies=Latencies.of(took),
        tails=tuple(Latencies.of([SLOW_MS] * int(slow)) for slow in blocks),
        send_lags=Latencies(),
        generator_cpu_share=0.1,
    )
    curve = LoadCurve(asked=ASKED, loop="open", steps=(step,))
    return verdict(curve, Objective(most_ms=LIMIT_MS)).held


def trials(seed: int, count: int) -> list[dict[str, Any]]:
    """Run the gate `count` times in each case. A row counts each verdict."""
    cases = itertools.product(KINDS, (BROKEN, KEPT), RUNS, (False, True))
    with ProcessPoolExecutor() as pool:
        return [*pool.map(_row, ((seed, at, count, case) for at, case in enumerate(cases)))]


def _row(job: tuple[int, int, int, Case]) -> dict[str, Any]:
    seed, number, count, (kind, share, (seconds, rate), bursts) = job
    chance = np.random.default_rng([seed, number])
    held = Counter(run(kind, share, seconds, rate, bursts, chance) for _ in range(count))
    label = f"{kind.replace('_', ' ')}, {share:.1%} slow, {rate:g} requests/s for {seconds:g} s"
    return {
        "case": label + (", bursts" if bursts else ""),
        "kind": kind,
        "holds": share == KEPT,
        "trials": count,
        **{each: held[each] for each in ("met", "NOT met", "cannot be told")},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--count", type=int, default=2000, help="runs of each case")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    for row in trials(given.seed, given.count):
        print(row)
