"""A Gaussian process that predicts the value of every point from the few that were measured.

It models the logarithm of the value, since effects of settings multiply. Two points are similar
in each setting separately, and in all of them together: the kernel is Matern 3/2 in each setting.
The mean of the settings' kernels and their product are added, each with its own size. The reach
and size of an effect and the noise of a measurement are unknown: the likeliest values are used.

Sources: Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2, 4 and 5;
Duvenaud et al., Additive Gaussian Processes, 2011, for the kernel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ranks = NDArray[np.intp]

# The sizes of effects alone and together, after the reaches of the settings.
SIZES = 2

# Logarithms of what is likely before anything is known, and how far from it is still likely.
REACH = (np.log(0.6), 0.9)
ALONE = (np.log(0.3), 1.0)
TOGETHER = (np.log(0.15), 1.0)
# The middle is what the caller expects.
NOISE_WIDTH = 0.3
STEPS = (0.8, 0.4, 0.2)
# So far below what all the others say a measurement was disturbed, or is a cliff: it is believed with
# this standard deviation more, so that it is measured again where it might be the best.
SURPRISING, DOUBTED = 3.0, 0.7
# A normal distribution: 95 of 100 lie within so many standard deviations.
WITHIN_95 = 1.96


@dataclass(frozen=True)
class Levels:
    """The distinct values of each setting in a grid, and which of them each point has.

    They are few, so their kernels are computed once and looked up.
    """

    values: Array
    """[settings, levels], filled up with zeros."""
    one: Ranks
    """[settings, n]: which level each point has."""
    other: Ranks

    @classmethod
    def from_points(cls, one: Array, other: Array) -> "Levels":
        """Return the levels of points [n, settings] and [m, settings]."""
        columns = [np.unique(column, return_inverse=True) for column in np.vstack([one, other]).T]
        values = np.zeros((len(columns), max(len(levels) for levels, _ in columns)))
        for row, (levels, _) in zip(values, columns, strict=True):
            row[: len(levels)] = levels
        ranks = np.array([which for _, which in columns])
        return cls(values, ranks[:, : len(one)], ranks[:, len(one) :])


def compute_covariance(levels: Levels, parameters: Array) -> Array:
    """Return the covariance [n, m] of two sets of points.

    `parameters`: logarithms of the reach in each setting, then of SIZES sizes; further ones are
    ignored.
    """
    settings = len(levels.values)
    apart = np.abs(levels.values[:, :, None] - levels.values[:, None, :])
    scaled = apart * (np.sqrt(3.0) / np.exp(parameters[:settings]))[:, None, None]
    tables = (1 + scaled) * np.exp(-scaled)  # [settings, levels, levels]
    total = tables[0].take(levels.other[0], axis=1).take(levels.one[0], axis=0)
    product = total.copy()
    for table, one, other in zip(tables[1:], levels.one[1:], levels.other[1:], strict=True):
        each = table.take(other, axis=1).take(one, axis=0)
        total += each
        product *= each
    alone, together = np.exp(2 * parameters[settings : settings + SIZES])
    sums: Array = total * (alone / settings) + product * together
    return sums


@dataclass(frozen=True)
class Prediction:
    """The mean and deviation of the value's logarithm at each requested point."""

    mean: Array
    deviation: Array
    noise: float
    """Relative standard deviation of one measurement."""

    @property
    def lower_bound(self) -> Array:
        """Return the lower end of each point's 95 % interval."""
        return self.mean - WITHIN_95 * self.deviation


class GaussianProcess:
    """A Gaussian process fitted to measurements.

    `x`: [n, settings], 0 to 1. `y`: logarithms. `noise`: the expected relative noise.
    """

    def __init__(self, x: Array, y: Array, *, noise: float) -> None:
        self._x, self._middle = x, float(np.mean(y))
        self._y = y - self._middle
        self._levels = Levels.from_points(x, x)
        likely = [*[REACH] * x.shape[1], ALONE, TOGETHER, (np.log(noise), NOISE_WIDTH)]
        self._prior, self._width = np.array(likely).T
        self._doubt = np.zeros(len(y))
        self._fit()
        # Each measurement from all the others, in standard deviations.
        surprising = self._inverse @ self._y / np.sqrt(np.diag(self._inverse)) < -SURPRISING
        if surprising.any():
            self._doubt[surprising] = DOUBTED**2
            self._fit()

    @property
    def noise(self) -> float:
        """Return the relative standard deviation of one measurement."""
        return float(np.exp(self._likely[-1]))

    def predict(self, at: Array) -> Prediction:
        to = compute_covariance(Levels.from_points(at, self._x), self._likely)
        variance = np.exp(2 * self._likely[-1 - SIZES : -1]).sum() - (
            (to @ self._inverse) * to
        ).sum(axis=1)
        mean = to @ (self._inverse @ self._y) + self._middle
        return Prediction(mean, np.sqrt(np.maximum(variance, 1e-12)), self.noise)

    def predict_difference(self, one: Array, other: Array) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm by which `one` exceeds `other`."""
        both = np.stack([one, other])
        to = compute_covariance(Levels.from_points(both, self._x), self._likely)
        rest = (
            compute_covariance(Levels.from_points(both, both), self._likely)
            - to @ self._inverse @ to.T
        )
        mean = float((to[0] - to[1]) @ self._inverse @ self._y)
        return mean, float(np.sqrt(max(rest[0, 0] + rest[1, 1] - 2 * rest[0, 1], 0.0)))

    def _fit(self) -> None:
        """Find the likeliest parameters by stepping along each, with wider steps first."""
        best: Array = self._prior
        cost = self._compute_cost(best)
        for step in STEPS:
            for parameter in range(len(best)):
                for way in (step, -step):
                    moved = best.copy()
                    moved[parameter] += way
                    while (lower := self._compute_cost(moved)) < cost - 1e-9:
                        best, cost = moved.copy(), lower
                        moved[parameter] += way
        self._likely = best
        self._inverse = np.linalg.inv(self._compute_covariance(best))

    def _compute_cost(self, parameters: Array) -> float:
        """Return the negative log posterior, up to a constant.

        Returns infinity if there is no Cholesky factor.
        """
        try:
            factor = np.linalg.cholesky(self._compute_covariance(parameters))
        except np.linalg.LinAlgError:
            return float("inf")
        half = np.linalg.solve(factor, self._y)
        unlikely = (((parameters - self._prior) / self._width) ** 2).sum() / 2
        return float(half @ half / 2 + np.log(np.diag(factor)).sum() + unlikely)

    def _compute_covariance(self, parameters: Array) -> Array:
        """Return the covariance of the measurements, including noise."""
        matrix = compute_covariance(self._levels, parameters)
        matrix[np.diag_indices(len(matrix))] += np.exp(2 * parameters[-1]) + 1e-9 + self._doubt
        return matrix
