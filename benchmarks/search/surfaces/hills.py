"""Surfaces that mislead: a broad hill that is not the highest, and a slope that ends at a cliff.

No computer is behind them, as behind the plateaus.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.surfaces.plateaus import GRID, TOP_RPS, VCPUS
from benchmarks.search.surfaces.surface import Surface
from servable.tune.search.space import Point

Shape = Callable[[NDArray[np.float64]], float]


def deceptive(seed: int) -> Surface:
    """A broad hill worth 85 to 95 % of the best; the best is a narrow one, mostly elsewhere."""
    of = np.random.default_rng([106, seed])
    broad, narrow = of.uniform(0, 1, (2, len(GRID)))
    height, slope = of.uniform(0.85, 0.95), of.uniform(0.5, 1.5)
    return _surface(
        lambda at: max(
            height * float(np.exp(-slope * ((at - broad) ** 2).sum())),
            float(np.exp(-6 * slope * ((at - narrow) ** 2).sum())),
        )
    )


def cliff(seed: int) -> Surface:
    """More is better in some settings, until together they are too much: then a third, or nothing."""
    of = np.random.default_rng([107, seed])
    gains = of.uniform(0, 0.8, len(GRID)) * (of.random(len(GRID)) < 0.7)
    demand = of.uniform(0, 1, len(GRID))
    most, beyond = of.uniform(0.4, 0.8) * demand.sum(), float(of.choice([0.0, 0.35]))
    return _surface(
        lambda at: float(np.exp(gains @ (at - 1))) * (1.0 if demand @ at <= most else beyond)
    )


def _surface(shape: Shape) -> Surface:
    """A surface whose formula takes each setting's rank, 0 to 1."""

    def rps(point: Point) -> float:
        ranks = [GRID[name].index(point[name]) / (len(GRID[name]) - 1) for name in GRID]
        return TOP_RPS * shape(np.array(ranks))

    return Surface(grid=GRID, rps=rps, vcpus=VCPUS)
