"""A grid of settings, and the throughput of each of its points."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from servable.tune.search.space import Point, Space, Value

# Relative standard deviation of one measurement, as of a load test of half a minute.
NOISE = 0.05


@dataclass(frozen=True, kw_only=True)
class Surface:
    """`rps` is without noise; 0 is a container that does not start."""

    grid: Mapping[str, tuple[Value, ...]]
    """setting -> what it may be, in order; batching.timeout_micros counts only with batching."""
    rps: Callable[[Point], float]
    vcpus: int
    space: Space | None = None
    """None: the whole grid."""
    wanted: Sequence[Point] | None = None
    """Tried first, today's settings before all. None: the rules of thumb."""


def slowest(*limits: float, sharpness: float = 4.0) -> float:
    """The smallest of several limits, rounded where two of them meet; 0 where one is 0."""
    if min(limits) <= 0:
        return 0.0
    least = min(limits)
    return float(least * sum((least / limit) ** sharpness for limit in limits) ** (-1 / sharpness))


def number(point: Point, setting: str) -> int:
    """What a setting that counts something is; nothing is 1."""
    return int(point[setting] or 1)
