"""A Gaussian process that predicts the value of every point from the few that were measured.

It models the logarithm of the value, since effects of settings multiply. Two points are similar
in each setting separately, and in all of them together: the kernel is Matern 3/2 in each setting.
The mean of the settings' kernels and their product are added, each with its own size. The reach
and size of an effect and the noise of a measurement are unknown: the likeliest values are used.

Sources: Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2, 4 and 5;
Duvenaud et al., Additive Gaussian Processes, 2011, for the kernel.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Logarithms of what is likely before anything is known, and how far from it is still likely.
# Few settings matter, so most reach further than their values do. Source: Box and Meyer, An Analysis for
# Unreplicated Fractional Factorials, 1986 (effect sparsity).
REACH = (np.log(1.2), 1.3)
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


def generate_kernels(one: Array, other: Array, reaches: Array) -> Iterator[Array]:
    """Yield each setting's kernel [n, m] of points [n, settings] and [m, settings].

    `reaches`: logarithms. A setting has few values, so each is computed once.
    """
    for column, others, reach in zip(one.T, other.T, np.exp(reaches), strict=True):
        values, at = np.unique(column, return_inverse=True)
        scaled = np.abs(values[:, None] - others) * (np.sqrt(3.0) / reach)
        yield ((1 + scaled) * np.exp(-scaled))[at]


def compute_covariance(one: Array, other: Array, reaches: Array, sizes: Array) -> Array:
    """Return the covariance [n, m] of two sets of points.

    `sizes`: logarithms of the effects' sizes alone and together.
    """
    mean, product = np.zeros(()), np.ones(())
    for kernel in generate_kernels(one, other, reaches):
        mean, product = mean + kernel / len(reaches), product * kernel
    return _add_effects(mean, product, sizes)


def _add_effects(mean: Array, product: Array, sizes: Array) -> Array:
    alone, together = np.exp(2 * sizes)
    covariance: Array = alone * mean + together * product
    return covariance


@dataclass(frozen=True)
class Prediction:
    """The mean and deviation of the value's logarithm at each requested point."""

    mean: Array
    deviation: Array
    noise: float
    """Relative standard deviation of one measurement."""


class GaussianProcess:
    """A Gaussian process fitted to measurements.

    `x`: [n, settings], 0 to 1. `y`: logarithms. `noise`: the expected relative noise.
    """

    def __init__(self, x: Array, y: Array, *, noise: float) -> None:
        self._x, self._settings, self._middle = x, x.shape[1], float(np.mean(y))
        self._y = y - self._middle
        likely = [*[REACH] * self._settings, ALONE, TOGETHER, (np.log(noise), NOISE_WIDTH)]
        self._prior, self._width = np.array(likely).T
        self._doubt = np.zeros(len(y))
        self._fit()
        # Each measurement from all the others, in standard deviations.
        self.doubted = self._inverse @ self._y / np.sqrt(np.diag(self._inverse)) < -SURPRISING
        if self.doubted.any():
            self._doubt[self.doubted] = DOUBTED**2
            self._fit()

    def predict(self, at: Array) -> Prediction:
        to = self._compute_covariance(at, self._x)
        variance = np.exp(2 * self._likely[self._settings : -1]).sum() - (
            (to @ self._inverse) * to
        ).sum(axis=1)
        mean = to @ (self._inverse @ self._y) + self._middle
        return Prediction(mean, np.sqrt(np.maximum(variance, 1e-12)), self.noise)

    def predict_difference(self, one: Array, other: Array) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm by which `one` exceeds `other`."""
        both = np.stack([one, other])
        to = self._compute_covariance(both, self._x)
        rest = self._compute_covariance(both, both) - to @ self._inverse @ to.T
        mean = float((to[0] - to[1]) @ self._inverse @ self._y)
        return mean, float(np.sqrt(max(rest[0, 0] + rest[1, 1] - 2 * rest[0, 1], 0.0)))

    def _compute_covariance(self, one: Array, other: Array) -> Array:
        """Return the covariance [n, m] of two sets of points, without noise."""
        reaches, sizes = self._likely[: self._settings], self._likely[self._settings : -1]
        return compute_covariance(one, other, reaches, sizes)

    def _fit(self) -> None:
        """Find the likeliest parameters by stepping along each, with wider steps first."""
        best: Array = self._prior
        kernels = np.array([*generate_kernels(self._x, self._x, best[: self._settings])])
        cost = self._compute_cost(best, kernels)
        for step in STEPS:
            for at, way in itertools.product(range(len(best)), (step, -step)):
                while True:
                    moved, changed = best.copy(), kernels.copy()
                    moved[at] += way
                    if at < self._settings:
                        one = self._x[:, at : at + 1]
                        changed[at] = next(generate_kernels(one, one, moved[at : at + 1]))
                    if (lower := self._compute_cost(moved, changed)) >= cost - 1e-9:
                        break
                    best, kernels, cost = moved, changed, lower
        self._likely, self.noise = best, float(np.exp(best[-1]))
        self._inverse = np.linalg.inv(self._add_noise(best, kernels))

    def _compute_cost(self, parameters: Array, kernels: Array) -> float:
        """Return the negative log posterior, up to a constant.

        Returns infinity if there is no Cholesky factor.
        """
        try:
            factor = np.linalg.cholesky(self._add_noise(parameters, kernels))
        except np.linalg.LinAlgError:
            return float("inf")
        half = np.linalg.solve(factor, self._y)
        unlikely = (((parameters - self._prior) / self._width) ** 2).sum() / 2
        return float(half @ half / 2 + np.log(np.diag(factor)).sum() + unlikely)

    def _add_noise(self, parameters: Array, kernels: Array) -> Array:
        """Return the covariance of the measurements, including noise."""
        sizes = parameters[self._settings : -1]
        matrix = _add_effects(kernels.mean(axis=0), kernels.prod(axis=0), sizes)
        matrix[np.diag_indices(len(matrix))] += np.exp(2 * parameters[-1]) + 1e-9 + self._doubt
        return matrix
