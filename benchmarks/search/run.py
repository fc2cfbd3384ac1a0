"""One search on one surface: what the point that it recommends is really worth."""

import time
from dataclasses import dataclass

from benchmarks.search.contenders import CONTENDERS, search_of
from benchmarks.search.known import known, looked_up
from benchmarks.search.surfaces import FLAT

BUDGET_TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class Run:
    family: str
    contender: str
    seed: int
    share_of_best: float
    """Of the grid's best: the formula's value, without noise, of what was recommended."""
    measurements: int
    seconds: float


def run(family: str, contender: str, seed: int) -> Run:
    surface = known(family, seed)
    began = time.monotonic()
    number, measurements = CONTENDERS[contender](surface, seed, BUDGET_TRIALS)
    return Run(
        family=family,
        contender=contender,
        seed=seed,
        share_of_best=surface.share_of_best(number),
        measurements=measurements,
        seconds=time.monotonic() - began,
    )


def everyone(family: str, seed: int) -> list[Run]:
    """Every search, with the same noise."""
    return [run(family, contender, seed) for contender in CONTENDERS]


def flat(seed: int) -> tuple[int, str]:
    """Measurements until it stops, and why it does."""
    found = search_of(looked_up(FLAT(seed)), seed, BUDGET_TRIALS)
    return len(found.trials), found.stopped
