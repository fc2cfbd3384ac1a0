"""The nearest curve that only rises, or rises to one peak and falls: noise removed, no shape assumed.

Source: pool adjacent violators, Barlow and others, Statistical Inference under Order Restrictions
(1972), section 1.2.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def rising(values: Numbers, weights: Numbers) -> Numbers:
    """By least squares; as long as `values`, never falling."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            before = pools.pop()
            together = before[1] + pool[1]
            mean = (before[0] * before[1] + pool[0] * pool[1]) / together
            pool = (mean, together, before[2] + pool[2])
        pools.append(pool)
    return np.array([value for value, _, count in pools for _ in range(count)])


def one_peak(values: Numbers, weights: Numbers) -> Numbers:
    """Rising to one of the points, falling from it; of all such, the nearest."""
    best: Numbers | None = None
    least = np.inf
    for peak in range(len(values)):
        up = rising(values[: peak + 1], weights[: peak + 1])
        down = rising(values[peak:][::-1], weights[peak:][::-1])[::-1]
        fit = np.concatenate([up[:-1], [max(up[-1], down[0])], down[1:]])
        error = float((weights * (fit - values) ** 2).sum())
        if error < least:
            best, least = fit, error
    assert best is not None  # one point is a peak
    return best
