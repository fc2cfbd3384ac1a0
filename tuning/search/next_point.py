"""Which point is worth measuring next, and when none is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuning.search.model import Model
from tuning.search.space import Space
from tuning.search.trial import logarithms

# Measured first, before a model is asked.
STARTS = 10
# A tenth of a percent is not worth a load test.
WORTH = 0.001
# From here on a flat surface may be called one; by FLAT_UNTIL it must be, or it is not flat.
FLAT_FROM, FLAT_UNTIL = 12, 15
# The scatter that noise alone exceeds once in a hundred times, in standard deviations of the
# chi-squared distribution's normal approximation (Wilson and Hilferty, 1931).
UNLIKELY = 2.326


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The next point, or the reason to stop."""

    number: int | None
    stopped: str | None = None
    expected_gain: float | None = None
    """Relative, of the best."""


def propose(
    space: Space, starts: Sequence[int], tried: Sequence[int], values: Sequence[float], noise: float
) -> Proposal:
    """`tried`: numbers of points, with repeats; `values`: theirs. `noise`: of one, relative."""
    if len(tried) < len(starts):
        return Proposal(number=starts[len(tried)])
    logs = logarithms(values)
    if FLAT_FROM <= len(tried) <= FLAT_UNTIL and flat(logs, noise) and min(values) > 0:
        return Proposal(number=None, stopped=_flat_sentence(logs))
    model = Model(space.coordinates[list(tried)], logs, noise=noise)
    expected = model.expected(space.coordinates)
    gains = expected_gain(
        expected.mean, expected.deviation, float(expected.mean[tried].max()), model.noise
    )
    best = int(gains.argmax())
    if gains[best] < WORTH and len(tried) >= FLAT_FROM:
        sentence = f"another measurement is expected to gain {gains[best]:.2%}: below {WORTH:.1%}"
        return Proposal(number=None, stopped=sentence, expected_gain=float(gains[best]))
    return Proposal(number=best, expected_gain=float(gains[best]))


def flat(logs: NDArray[np.float64], noise: float) -> bool:
    """Whether points this different scatter no more than measurements of one point would."""
    free = len(logs) - 1
    scatter = float(((logs - logs.mean()) ** 2).sum()) / noise**2
    at_most = free * (1 - 2 / (9 * free) + UNLIKELY * math.sqrt(2 / (9 * free))) ** 3
    return scatter <= at_most


def _flat_sentence(logs: NDArray[np.float64]) -> str:
    spread = math.exp(2 * float(logs.std(ddof=1))) - 1
    return (
        f"the surface is flat: {len(logs)} points as different as the space allows differ by "
        f"{spread:.0%} at most, no more than measurements of one point do; "
        "no setting tried here matters"
    )


def expected_gain(
    mean: NDArray[np.float64], deviation: NDArray[np.float64], best: float, noise: float
) -> NDArray[np.float64]:
    """Augmented expected improvement over `best`, of logarithms: about relative.

    What is known as well as a measurement could tell it is not measured again: a repeat is worth
    little, unless it could still win.
    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (mean - best) / deviation
    below = 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    told = 1 - noise / np.sqrt(deviation**2 + noise**2)
    found: NDArray[np.float64] = deviation * (z * below + density) * told
    return found
