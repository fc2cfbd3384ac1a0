"""Searches with the same budget and the same noise, on surfaces of which every point is known.

Ours as `servable tune` does it, random search, and Optuna's TPE from our rules of thumb. Each ends with the
point that it recommends.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optuna

from benchmarks.search.surfaces import FAMILIES, FLAT, Surface
from servable.tune.search.search import Search
from servable.tune.search.space import Point
from servable.tune.search.trial import Budget, Measurement
from servable.tune.tune import CONFIRM

BUDGET_TRIALS = 40
# The others search every second surface: they are compared in pairs.
OTHERS_EVERY = 2
# A measurement in so many is disturbed, and shows this share of what it should.
DISTURBED_EVERY, DISTURBED_SHARE = 40, 0.5
Answer = dict[str, Any]
"""`point`: the number of the recommended one."""


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def surface_of(family: str, seed: int) -> Surface:
    return FAMILIES[family](seed)


def disturbances(seed: int, noise: float) -> Iterator[float]:
    """Factors of one measurement after the other: the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        share = DISTURBED_SHARE if chance.random() * DISTURBED_EVERY < 1 else 1.0
        yield float(np.exp(chance.normal(0.0, noise))) * share


def ours(surface: Surface, seed: int, noise: float) -> Answer:
    """Run our search with its confirmation; the answer has the kept point and the verdict."""
    space, factors = surface.space, disturbances(seed, noise)

    def measure(point: Point) -> Measurement:
        return Measurement(value=surface.values[space.number(point) or 0] * next(factors))

    search = Search(space, surface.wanted, seed=seed, confirm=CONFIRM)
    result = search.run(measure, Budget(trials=BUDGET_TRIALS))
    choice = result.choice
    return {
        "point": (choice and space.number(choice.kept)) or 0,
        "measurements": len(result.trials),
        "flat": "flat" in result.stopped,
        "better": choice is not None and choice.better,
    }


def random(surface: Surface, seed: int, noise: float) -> Answer:
    """Different points drawn at random; the highest measurement wins."""
    factors, chance = disturbances(seed, noise), np.random.default_rng([9, seed])
    numbers = chance.choice(len(surface.space), size=BUDGET_TRIALS, replace=False)
    values = [surface.values[number] * next(factors) for number in numbers]
    return {"point": int(numbers[int(np.argmax(values))])}


def tpe(surface: Surface, seed: int, noise: float) -> Answer:
    """Optuna's TPE as it comes: each setting is the number of its rank; our first points begin."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, factors = surface.space, disturbances(seed, noise)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for number in dict.fromkeys(map(space.nearest, surface.wanted)):
        near = space.point(number)
        study.enqueue_trial({name: space.grid[name].index(value) for name, value in near.items()})

    def number_at(ranks: dict[str, int]) -> int:
        point = {name: space.grid[name][ranks[name]] for name in space.names}
        number = space.number(point)
        return space.nearest(point) if number is None else number

    def measured(trial: optuna.Trial) -> float:
        grid = space.grid.items()
        ranks = {name: trial.suggest_int(name, 0, len(values) - 1) for name, values in grid}
        return float(surface.values[number_at(ranks)] * next(factors))

    study.optimize(measured, n_trials=BUDGET_TRIALS)
    return {"point": number_at(study.best_params)}


CONTENDERS: dict[str, Callable[[Surface, int, float], Answer]] = {
    "ours": ours,
    "TPE": tpe,
    "random": random,
}


def run(family: str, contender: str, seed: int, noise: float) -> Answer:
    """One search on one surface: the true throughput of the point that it recommends, without noise."""
    surface = surface_of(family, seed)
    answer = CONTENDERS[contender](surface, seed, noise)
    share = surface.values[answer.pop("point")] / surface.values.max()
    return {"share_of_best": round(float(share), 4), **answer}


def everyone(job: tuple[str, int, float]) -> dict[str, Answer]:
    """Run our search on every surface, and the others on a part of those that are not flat."""
    family, seed, noise = job
    names = ["ours"] if family == FLAT or seed % OTHERS_EVERY else [*CONTENDERS]
    return {name: run(family, name, seed, noise) for name in names}
