"""What one more measurement is worth: that it finds a better point, or a better answer.

Every gain is of logarithms, so about relative.
"""

import math

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.kernel import Array
from servable.tune.search.model import Expected, Model

# Points at which a normal distribution is weighed, exact for polynomials up to the 23rd degree.
_AT, _WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Of "it ran" (1) and "it did not" (0): a setting that runs today and not tomorrow is rare.
_RAN_NOISE = 0.1


def of_finding(one: Expected, best: float) -> Array:
    """Augmented expected improvement over `best`, of each point.

    What is known as well as a measurement could tell it is not measured again: a repeat is worth
    little, unless it could still win.
    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (one.mean - best) / one.deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    told = 1 - one.noise / np.sqrt(one.deviation**2 + one.noise**2)
    found: Array = one.deviation * (z * _below(z) + density) * told
    return found


def of_answering(one: Expected, together: Array, tried: NDArray[np.bool_]) -> Array:
    """Knowledge gradient, of each point: how much better the answer is expected to be afterwards.

    The answer is what is then expected most of, among the points that were measured. `together`:
    covariance of the points with each other.
    Source: Frazier, Powell and Dayanik, The Knowledge-Gradient Policy for Correlated Normal
    Beliefs, 2009.
    """
    own = np.maximum(np.diag(together), 1e-12)
    moved = together / np.sqrt(own + one.noise**2)[:, None]
    others = one.mean[tried, None] + moved[:, tried, None] * _AT
    itself = one.mean[:, None] + np.diag(moved)[:, None] * _AT
    found: Array = np.maximum(others.max(axis=1), itself) @ _WEIGHTS - one.mean[tried].max()
    return np.maximum(found, 0.0)


def chance_to_run(at: Array, tried: Array, ran: NDArray[np.bool_]) -> Array:
    """That each point `at` runs at all, from which of those tried did."""
    if ran.all() or not ran.any():
        return np.ones(len(at))
    expected = Model(tried, ran.astype(float), noise=_RAN_NOISE, drawn=0).expected(at)[0]
    return _below((expected.mean - 0.5) / np.hypot(expected.deviation, _RAN_NOISE))


def _below(z: Array) -> Array:
    """Of the normal distribution."""
    found: Array = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(z / math.sqrt(2)))
    return found
