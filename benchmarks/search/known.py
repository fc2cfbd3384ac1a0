"""A surface with every point looked up once: what all searches measure, and what their answer is worth."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.surfaces import FAMILIES
from benchmarks.search.surfaces.surface import NOISE, Surface
from servable.tune.search.space import Space
from servable.tune.search.start import rules_of_thumb


@dataclass(frozen=True, kw_only=True)
class Known:
    space: Space
    rps: NDArray[np.float64]
    """Of each point of the space, without noise."""
    rules: tuple[int, ...]
    """The points that our rules of thumb name, as near as the space has them."""
    vcpus: int

    @property
    def best_rps(self) -> float:
        return float(self.rps.max())

    def share_of_best(self, number: int) -> float:
        """Of the grid's best, without noise."""
        return float(self.rps[number]) / self.best_rps

    def measured(self, number: int, noise: Iterator[float]) -> float:
        """With noise that multiplies."""
        return float(self.rps[number]) * next(noise)


def noise(seed: int, draw: int = 0) -> Iterator[float]:
    """Of one measurement after the other: the same for every search."""
    chance = np.random.default_rng([7, seed, draw] if draw else [7, seed])
    while True:
        yield float(np.exp(chance.normal(0.0, NOISE)))


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def known(family: str, seed: int) -> Known:
    return looked_up(FAMILIES[family](seed))


def looked_up(surface: Surface) -> Known:
    space = _space(tuple(surface.grid.items()))
    rps = np.array([surface.rps(space.point(number)) for number in range(len(space))])
    near = [space.nearest(one) for one in rules_of_thumb(space, vcpus=surface.vcpus)]
    return Known(space=space, rps=rps, rules=tuple(dict.fromkeys(near)), vcpus=surface.vcpus)


@functools.cache
def _space(grid: tuple[tuple[str, tuple[int | float | str | bool | None, ...]], ...]) -> Space:
    """One of each family: a seed changes what the points are worth, and not which there are."""
    return Space(dict(grid))
