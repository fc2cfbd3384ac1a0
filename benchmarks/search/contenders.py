"""Searches with the same budget and the same noise, on surfaces of which every point is known.

Ours as `servable tune` does it, random search, a forest, and Optuna's TPE (and its Gaussian process,
where PyTorch is installed) from our rules of thumb. Each ends with the point that it recommends.
"""

import functools
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import optuna
from numpy.typing import NDArray

from benchmarks.search.forest import forest_expected
from benchmarks.search.surfaces import FAMILIES, FLAT
from benchmarks.search.surfaces.surface import Surface
from servable.tune.search.next_point import STARTS, expected_improvement
from servable.tune.search.search import Search
from servable.tune.search.space import Point, Space, Value
from servable.tune.search.start import rules_of_thumb, starts
from servable.tune.search.trial import Budget, Measurement, logarithms
from servable.tune.tune import CONFIRM

BUDGET_TRIALS = 40
# The others search every second surface: they are compared in pairs.
OTHERS_EVERY = 2
# A measurement in so many is disturbed, and shows this share of what it should.
DISTURBED_EVERY, DISTURBED_SHARE = 40, 0.5


@dataclass(frozen=True, kw_only=True)
class KnownSurface:
    """Every point looked up once: what all searches measure, and the throughput of their answer."""

    space: Space
    rps: NDArray[np.float64]
    """Requests per second at each point of the space, without noise."""
    wanted: tuple[Point, ...]
    """Tried first: today's settings, then the rules of thumb."""

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
    space = surface.space or _space(tuple(surface.grid.items()))
    rps = np.array([surface.rps(space.point(number)) for number in range(len(space))])
    wanted = surface.wanted or rules_of_thumb(space, vcpus=surface.vcpus)
    return KnownSurface(space=space, rps=rps, wanted=tuple(wanted))


@functools.cache
def _space(grid: tuple[tuple[str, tuple[Value, ...]], ...]) -> Space:
    """One of each family: a seed changes the throughput of the points, and not which there are."""
    return Space(dict(grid))


def disturbed(seed: int, noise: float) -> Iterator[float]:
    """Factors of one measurement after the other: the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        share = DISTURBED_SHARE if chance.random() * DISTURBED_EVERY < 1 else 1.0
        yield float(np.exp(chance.normal(0.0, noise))) * share


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a search says in the end."""

    point: int
    measurements: int = BUDGET_TRIALS
    flat: bool = False
    better: bool = True
    """Than today's settings, it says."""


Contender = Callable[[KnownSurface, int, float], SearchAnswer]


def ours(surface: KnownSurface, seed: int, noise: float) -> SearchAnswer:
    """With the confirmation at the end, and what the file would say then."""
    space, factors = surface.space, disturbed(seed, noise)

    def measure(point: Point) -> Measurement:
        return Measurement(value=surface.measured(space.number(point) or 0, factors))

    found = Search(space, surface.wanted, seed=seed, confirm=CONFIRM).run(
        measure, Budget(trials=BUDGET_TRIALS)
    )
    kept = space.number(found.choice.kept) if found.choice else None
    return SearchAnswer(
        point=kept or 0,
        measurements=len(found.trials),
        flat="flat" in found.stopped,
        better=found.choice is not None and found.choice.better,
    )


def random(surface: KnownSurface, seed: int, noise: float) -> SearchAnswer:
    """Different points drawn at random; the highest measurement wins."""
    factors, chance = disturbed(seed, noise), np.random.default_rng([9, seed])
    numbers = chance.choice(len(surface.space), size=BUDGET_TRIALS, replace=False)
    values = [surface.measured(int(number), factors) for number in numbers]
    return SearchAnswer(point=int(numbers[int(np.argmax(values))]))


def forest(surface: KnownSurface, seed: int, noise: float) -> SearchAnswer:
    """From our first points on; of what was measured the one it expects most of wins."""
    space, factors, chance = (
        surface.space,
        disturbed(seed, noise),
        np.random.default_rng([10, seed]),
    )
    tried = starts(space, surface.wanted, count=STARTS, seed=seed)
    values = [surface.measured(number, factors) for number in tried]
    while len(tried) < BUDGET_TRIALS:
        expected = forest_expected(space.features, tried, logarithms(values), chance)
        gains = expected_improvement(expected, float(expected.mean[tried].max()))
        tried.append(int(gains.argmax()))
        values.append(surface.measured(tried[-1], factors))
    expected = forest_expected(space.features, tried, logarithms(values), chance)
    return SearchAnswer(point=tried[int(expected.mean[tried].argmax())])


def optunas(surface: KnownSurface, seed: int, noise: float, *, sampler: str) -> SearchAnswer:
    """Optuna as it comes: each setting is the whole number of its rank; told our first points.

    The point with the highest measurement wins.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, factors = surface.space, disturbed(seed, noise)
    study = optuna.create_study(
        direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed)
    )
    for number in dict.fromkeys(space.nearest(one) for one in surface.wanted):
        near = space.point(number)
        study.enqueue_trial({name: space.grid[name].index(value) for name, value in near.items()})

    def at(ranks: dict[str, int]) -> int:
        wanted = {name: space.grid[name][ranks[name]] for name in space.names}
        number = space.number(wanted)
        return space.nearest(wanted) if number is None else number

    def measured(trial: optuna.Trial) -> float:
        ranks = {
            name: trial.suggest_int(name, 0, len(values) - 1) for name, values in space.grid.items()
        }
        return surface.measured(at(ranks), factors)

    study.optimize(measured, n_trials=BUDGET_TRIALS)
    return SearchAnswer(point=at(study.best_params))


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "forest": forest,
    "TPE": functools.partial(optunas, sampler="TPESampler"),
    "random": random,
}
if importlib.util.find_spec("torch"):
    CONTENDERS["Optuna's Gaussian process"] = functools.partial(optunas, sampler="GPSampler")


@dataclass(frozen=True, kw_only=True)
class SearchRun:
    """One search on one surface: the true throughput of the point that it recommends."""

    share_of_best: float
    """Throughput of the recommended point, without noise, as a share of the grid's best."""
    measurements: int
    flat: bool
    better: bool
    seconds: float


def run(family: str, contender: str, seed: int, noise: float) -> SearchRun:
    surface = known(family, seed)
    began = time.process_time()
    answer = CONTENDERS[contender](surface, seed, noise)
    return SearchRun(
        share_of_best=round(surface.share_of_best(answer.point), 4),
        measurements=answer.measurements,
        flat=answer.flat,
        better=answer.better,
        seconds=round(time.process_time() - began, 2),
    )


def everyone(job: tuple[str, int, float]) -> dict[str, SearchRun]:
    """Ours on every surface; the others on every second one that is not flat."""
    family, seed, noise = job
    names = ["ours"] if family == FLAT or seed % OTHERS_EVERY else [*CONTENDERS]
    return {name: run(family, name, seed, noise) for name in names}
