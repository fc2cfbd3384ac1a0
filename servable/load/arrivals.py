"""When requests are meant to be sent in an open loop."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

Arrivals = Literal["poisson", "constant"]
_AT_ONCE = 1024


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
