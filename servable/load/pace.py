"""Duration of a load step, and the scheduled times of its requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

Arrivals = Literal["poisson", "constant"]
_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Duration of a load step and its arrivals."""

    warm_up_seconds: float = 2.0
    """Connections are opened and queues fill; in no number."""
    least_seconds: float = 4.0
    """Two seconds can be known within 5 % by chance."""
    most_seconds: float = 30.0
    """A percentile that is not known within 5 % by then is reported as unknown."""
    arrivals: Arrivals = "poisson"


def times(rate_rps: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Seconds since the beginning, rising, without end.

    "poisson": callers that know nothing of each other. "constant": one at each 1 / rate.
    """
    gap, now = 1 / rate_rps, 0.0
    random = np.random.default_rng(seed)
    while True:
        gaps = np.full(_AT_ONCE, gap)
        if arrivals == "poisson":
            gaps = random.exponential(gap, _AT_ONCE)
        moments = now + np.cumsum(gaps)
        yield from moments.tolist()
        now = float(moments[-1])
