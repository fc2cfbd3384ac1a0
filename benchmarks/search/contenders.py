"""Searches with the same budget and the same noise, on surfaces of which every point is known.

Ours, random search, and Optuna's TPE with and without our rules of thumb. Each returns the number of
the point that it recommends, and how many measurements it took.
"""

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import optuna
from numpy.typing import NDArray

from benchmarks.search.surfaces import FAMILIES, FLAT
from benchmarks.search.surfaces.surface import NOISE, Surface
from servable.tune.search.search import Found, Search
from servable.tune.search.space import Point, Space, Value
from servable.tune.search.start import rules_of_thumb
from servable.tune.search.trial import Budget, Measurement

BUDGET_TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class KnownSurface:
    """Every point looked up once: what all searches measure, and the throughput of their answer."""

    space: Space
    rps: NDArray[np.float64]
    """Requests per second at each point of the space, without noise."""
    rules: tuple[int, ...]
    """The points that our rules of thumb name, as near as the space has them."""
    vcpus: int

    def share_of_best(self, number: int) -> float:
        """Throughput of this point as a share of the grid's best, without noise."""
        return float(self.rps[number] / self.rps.max())

    def measured(self, number: int, noise: Iterator[float]) -> float:
        """With noise that multiplies."""
        return float(self.rps[number]) * next(noise)


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def known(family: str, seed: int) -> KnownSurface:
    return _looked_up(FAMILIES[family](seed))


def _looked_up(surface: Surface) -> KnownSurface:
    space = _space(tuple(surface.grid.items()))
    rps = np.array([surface.rps(space.point(number)) for number in range(len(space))])
    near = [space.nearest(one) for one in rules_of_thumb(space, vcpus=surface.vcpus)]
    return KnownSurface(space=space, rps=rps, rules=tuple(dict.fromkeys(near)), vcpus=surface.vcpus)


@functools.cache
def _space(grid: tuple[tuple[str, tuple[Value, ...]], ...]) -> Space:
    """One of each family: a seed changes the throughput of the points, and not which there are."""
    return Space(dict(grid))


def _noise(seed: int) -> Iterator[float]:
    """Factors for one measurement after the other: the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        yield float(np.exp(chance.normal(0.0, NOISE)))


def ours(surface: KnownSurface, seed: int, budget: int) -> tuple[int, int]:
    found = _search(surface, seed, budget)
    number = surface.space.number(found.choice.point) if found.choice else None
    return number or 0, len(found.trials)


def _search(surface: KnownSurface, seed: int, budget: int) -> Found:
    """As `servable tune` does it; Optuna keeps the trials in memory."""
    space, noise = surface.space, _noise(seed)

    def measure(point: Point) -> Measurement:
        return Measurement(value=surface.measured(space.number(point) or 0, noise))

    search = Search(space, rules_of_thumb(space, vcpus=surface.vcpus), seed=seed)
    return search.run(measure, Budget(trials=budget))


def random(surface: KnownSurface, seed: int, budget: int) -> tuple[int, int]:
    """Different points drawn at random; the highest measurement wins."""
    noise, chance = _noise(seed), np.random.default_rng([9, seed])
    numbers = chance.choice(len(surface.space), size=budget, replace=False)
    values = [surface.measured(int(number), noise) for number in numbers]
    return int(numbers[int(np.argmax(values))]), budget


def tpe(
    surface: KnownSurface, seed: int, budget: int, *, from_rules: bool = False
) -> tuple[int, int]:
    """Optuna's own, as it comes: a whole number for each setting, its rank. The highest wins.

    `from_rules`: told our rules of thumb first; what is left is the difference in searching.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space, noise = surface.space, _noise(seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    for number in surface.rules if from_rules else ():
        near = space.point(number)
        study.enqueue_trial({name: space.grid[name].index(value) for name, value in near.items()})

    def at(ranks: dict[str, int]) -> int:
        return space.number({name: space.grid[name][ranks[name]] for name in space.names}) or 0

    def measured(trial: optuna.Trial) -> float:
        ranks = {
            name: trial.suggest_int(name, 0, len(values) - 1) for name, values in space.grid.items()
        }
        return surface.measured(at(ranks), noise)

    study.optimize(measured, n_trials=budget)
    return at(study.best_params), budget


CONTENDERS: dict[str, Callable[[KnownSurface, int, int], tuple[int, int]]] = {
    "ours": ours,
    "random": random,
    "TPE": tpe,
    "TPE from our rules of thumb": functools.partial(tpe, from_rules=True),
}


@dataclass(frozen=True, kw_only=True)
class SearchRun:
    """One search on one surface: the true throughput of the point that it recommends."""

    family: str
    contender: str
    seed: int
    share_of_best: float
    """Throughput of the recommended point, without noise, as a share of the grid's best."""
    measurements: int
    seconds: float


def run(family: str, contender: str, seed: int) -> SearchRun:
    surface = known(family, seed)
    began = time.monotonic()
    number, measurements = CONTENDERS[contender](surface, seed, BUDGET_TRIALS)
    return SearchRun(
        family=family,
        contender=contender,
        seed=seed,
        share_of_best=surface.share_of_best(number),
        measurements=measurements,
        seconds=time.monotonic() - began,
    )


def everyone(family: str, seed: int) -> list[SearchRun]:
    """Every search, with the same noise."""
    return [run(family, contender, seed) for contender in CONTENDERS]


def flat(seed: int) -> tuple[int, str]:
    """Measurements until it stops where every point has the same throughput, and why it does."""
    found = _search(_looked_up(FLAT(seed)), seed, BUDGET_TRIALS)
    return len(found.trials), found.stopped
