"""One search on one surface: what the point that it recommends is really worth."""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.search.contenders import CONTENDERS
from benchmarks.search.surfaces import FAMILIES, FLAT
from tuning.search.budget import Budget
from tuning.search.search import Search
from tuning.search.space import Space
from tuning.search.start import rules_of_thumb
from tuning.search.trial import Measured

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
    surface = FAMILIES[family](seed)
    space = Space(surface.grid)
    began = time.monotonic()
    number, measurements = CONTENDERS[contender](surface, space, seed, BUDGET_TRIALS)
    return Run(
        family=family,
        contender=contender,
        seed=seed,
        share_of_best=surface.rps(space.point(number)) / surface.best_rps(),
        measurements=measurements,
        seconds=time.monotonic() - began,
    )


def flat(seed: int) -> tuple[int, str]:
    """Measurements until it stops, and why it does."""
    surface, noise = FLAT(seed), np.random.default_rng([7, seed])
    search = Search(Space(surface.grid), rules_of_thumb(Space(surface.grid), vcpus=surface.vcpus))
    found = search.run(
        lambda point: Measured(value=surface.measured(point, noise)), Budget(trials=BUDGET_TRIALS)
    )
    return len(found.trials), found.stopped
