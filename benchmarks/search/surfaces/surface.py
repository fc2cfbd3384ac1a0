"""A grid of settings, and what each of its points is worth."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

Value = int | float | str | bool | None
Point = Mapping[str, Value]

# Relative standard deviation of one measurement, as of a load test of half a minute.
NOISE = 0.05


@dataclass(frozen=True, kw_only=True)
class Surface:
    """`rps` is without noise; 0 is a container that does not start."""

    grid: Mapping[str, tuple[Value, ...]]
    """setting -> what it may be, in order; batching.timeout_micros counts only with batching."""
    rps: Callable[[Point], float]
    vcpus: int
    gpus: int = 0

    def points(self) -> Iterator[Point]:
        """Every point once: the grid's product, without what differs in nothing."""
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            if not _repeats(point, self.grid):
                yield point

    def best_rps(self) -> float:
        return max(map(self.rps, self.points()))

    def measured(self, point: Point, noise: np.random.Generator) -> float:
        """Requests per second, with noise that multiplies."""
        return self.rps(point) * float(np.exp(noise.normal(0.0, NOISE)))


def _repeats(point: Point, grid: Mapping[str, tuple[Value, ...]]) -> bool:
    """Without batching its timeout changes nothing: only the first one stands for it."""
    if point.get("batching.max_batch_size", 0) is not None:
        return False
    timeout = "batching.timeout_micros"
    return timeout in point and point[timeout] != grid[timeout][0]


def slowest(*limits: float, sharpness: float = 4.0) -> float:
    """The smallest of several limits, rounded where two of them meet; 0 where one is 0."""
    if min(limits) <= 0:
        return 0.0
    least = min(limits)
    return float(least * sum((least / limit) ** sharpness for limit in limits) ** (-1 / sharpness))
