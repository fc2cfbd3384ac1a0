"""The search of `servable tune` on a surface, measured with noise."""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from servable.tune.search.search import Search
from servable.tune.search.space import Budget, Measurement, Point
from servable.tune.tune import CONFIRM
from tests.servable.tune.surfaces import FAMILIES, Surface

TRIALS = 40
Answer = dict[str, Any]
"""`point`: the number of the recommended point; `better`: the verdict of our search."""


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def make_surface(family: str, seed: int) -> Surface:
    return FAMILIES[family](seed)


def draw_disturbances(seed: int, noise: float) -> Iterator[float]:
    """Yield factors of one measurement after the other, the same for every search."""
    chance = np.random.default_rng([7, seed])
    while True:
        share = 0.5 if chance.random() * 40 < 1 else 1.0
        yield float(np.exp(chance.normal(0.0, noise))) * share


def search_ours(surface: Surface, seed: int, noise: float) -> Answer:
    """Run our search with its confirmation; the answer has the kept point and the verdict."""
    space, factors = surface.space, draw_disturbances(seed, noise)

    def measure_point(point: Point) -> Measurement:
        return Measurement(value=surface.values[space.number(point) or 0] * next(factors))

    search = Search(space, surface.wanted, seed=seed, confirm=CONFIRM)
    result = search.run(measure_point, Budget(trials=TRIALS))
    choice = result.choice
    return {
        "point": (choice and space.number(choice.kept)) or 0,
        "measurements": len(result.trials),
        "better": choice is not None and choice.better,
    }
