"""What is expected of every point, from the few that were measured: a Gaussian process.

On the logarithm of the value, since settings multiply: each setting has an effect of its own
(a sum of kernels) and together they have another (their product). How far an effect reaches,
how large it is and how noisy a measurement is are found by maximum a posteriori.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2 and 5;
the sum and the product as in Duvenaud et al., Additive Gaussian Processes, 2011.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Logarithms of what is likely before anything is known, and how far from it is still likely.
REACH = (np.log(0.6), 0.9)
ALONE = (np.log(0.3), 1.0)
TOGETHER = (np.log(0.15), 1.0)
# The middle is what the caller expects.
NOISE_WIDTH = 0.3
STEPS = (0.8, 0.4, 0.2)


@dataclass(frozen=True)
class Expected:
    """Of the logarithm of the value, at each point asked for."""

    mean: Array
    deviation: Array


class Model:
    """`x`: [n, settings], 0 to 1. `y`: logarithms. `noise`: what is expected of it, relative."""

    def __init__(self, x: Array, y: Array, *, noise: float) -> None:
        self._x, self._middle = x, float(np.mean(y))
        self._y = y - self._middle
        self._distances = np.abs(x[:, None, :] - x[None, :, :])
        settings = x.shape[1]
        self._prior = np.array([*[REACH[0]] * settings, ALONE[0], TOGETHER[0], np.log(noise)])
        self._width = np.array([*[REACH[1]] * settings, ALONE[1], TOGETHER[1], NOISE_WIDTH])
        self.likely = self._fitted(self._prior)
        covariance = _covariance(self._distances, self.likely)
        covariance[np.diag_indices(len(x))] += np.exp(2 * self.likely[-1])
        self._inverse = np.linalg.inv(covariance)
        self._weights = self._inverse @ self._y

    @property
    def noise(self) -> float:
        """Relative standard deviation of one measurement."""
        return float(np.exp(self.likely[-1]))

    def expected(self, at: Array) -> Expected:
        to = _covariance(np.abs(at[:, None, :] - self._x[None, :, :]), self.likely)
        own = np.exp(2 * self.likely[-3]) + np.exp(2 * self.likely[-2])
        left = own - np.einsum("ij,jk,ik->i", to, self._inverse, to, optimize=True)
        return Expected(to @ self._weights + self._middle, np.sqrt(np.maximum(left, 1e-12)))

    def difference(self, one: Array, other: Array) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of how much `one` is above `other`."""
        both = np.stack([one, other])
        to = _covariance(np.abs(both[:, None, :] - self._x[None, :, :]), self.likely)
        own = _covariance(np.abs(both[:, None, :] - both[None, :, :]), self.likely)
        left = own - to @ self._inverse @ to.T
        mean = to @ self._weights
        variance = left[0, 0] + left[1, 1] - 2 * left[0, 1]
        return float(mean[0] - mean[1]), float(np.sqrt(max(variance, 0.0)))

    def _fitted(self, start: Array) -> Array:
        """Step by step along each parameter, wider steps first."""
        best, cost = start.copy(), self._cost(start)
        for step in STEPS:
            for parameter in range(len(best)):
                for way in (step, -step):
                    moved = best.copy()
                    moved[parameter] += way
                    while (found := self._cost(moved)) < cost - 1e-9:
                        best, cost = moved.copy(), found
                        moved[parameter] += way
        return best

    def _cost(self, parameters: Array) -> float:
        covariance = _covariance(self._distances, parameters)
        covariance[np.diag_indices(len(self._y))] += np.exp(2 * parameters[-1]) + 1e-9
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return float("inf")
        half = np.linalg.solve(factor, self._y)
        unlikely = (((parameters - self._prior) / self._width) ** 2).sum() / 2
        return float(half @ half / 2 + np.log(np.diag(factor)).sum() + unlikely)


def _covariance(distances: Array, parameters: Array) -> Array:
    """Matern 3/2 in each setting; their mean for effects alone, their product for those together."""
    scaled = np.sqrt(3.0) * distances / np.exp(parameters[:-3])
    each = (1 + scaled) * np.exp(-scaled)
    alone: Array = np.exp(2 * parameters[-3]) * each.mean(axis=-1)
    together: Array = np.exp(2 * parameters[-2]) * each.prod(axis=-1)
    return alone + together
