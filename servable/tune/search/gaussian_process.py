"""What is expected of every point, from the few that were measured: a Gaussian process.

On the logarithm of the value, since settings multiply. Two points are alike in each setting for
itself, and in all of them together: Matern 3/2 in each setting; the mean of the settings' kernels
and their product, each with a size of its own. How far an effect reaches, how large it is and how
noisy a measurement is are not known: a few likely answers are drawn (Metropolis, from the likeliest
one), and what they expect is averaged.
Sources: Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2, 4 and 5;
Duvenaud et al., Additive Gaussian Processes, 2011, for the kernel; Snoek et al., Practical Bayesian
Optimization of Machine Learning Algorithms, 2012, for the averaging.
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
# 95 of 100 values of a normal distribution lie within so many standard deviations.
WITHIN_95 = 1.96
# Answers drawn beside the likeliest, and moves of every parameter until then.
DRAWN, MOVES = 4, 3


@dataclass(frozen=True)
class Levels:
    """A grid has few values for each setting: their kernels are computed once, and looked up."""

    values: Array
    """[settings, levels], filled up with zeros."""
    one: Ranks
    """[settings, n]: which level each point has."""
    other: Ranks

    @classmethod
    def of(cls, one: Array, other: Array) -> "Levels":
        """Return the levels of points [n, settings] and [m, settings]."""
        found = [np.unique(column, return_inverse=True) for column in np.vstack([one, other]).T]
        values = np.zeros((len(found), max(len(levels) for levels, _ in found)))
        for row, (levels, _) in zip(values, found, strict=True):
            row[: len(levels)] = levels
        ranks = np.array([which for _, which in found])
        return cls(values, ranks[:, : len(one)], ranks[:, len(one) :])


def covariance(levels: Levels, parameters: Array) -> Array:
    """[n, m]. `parameters`: logarithms of the reach in each setting, of SIZES sizes, and whatever."""
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
    found: Array = total * (alone / settings) + product * together
    return found


@dataclass(frozen=True)
class Expected:
    """Mean and deviation of the value's logarithm at each point, by one of the likely answers."""

    mean: Array
    deviation: Array
    noise: float
    """Relative standard deviation of one measurement."""


class GaussianProcess:
    """`x`: [n, settings], 0 to 1. `y`: logarithms. `noise`: what is expected of it, relative."""

    def __init__(self, x: Array, y: Array, *, noise: float, drawn: int = DRAWN) -> None:
        self._x, self._middle = x, float(np.mean(y))
        self._y = y - self._middle
        self._levels = Levels.of(x, x)
        likely = [*[REACH] * x.shape[1], ALONE, TOGETHER, (np.log(noise), NOISE_WIDTH)]
        self._prior, self._width = np.array(likely).T
        best = self._likeliest()
        self._likely = [best, *self._drawn(best, drawn)]
        self._inverses = [np.linalg.inv(self._covariance(one)) for one in self._likely]

    @property
    def noise(self) -> float:
        """Relative standard deviation of one measurement."""
        return float(np.exp(np.mean([one[-1] for one in self._likely])))

    def expected(self, at: Array) -> list[Expected]:
        levels = Levels.of(at, self._x)
        found = []
        for parameters, inverse in zip(self._likely, self._inverses, strict=True):
            to = covariance(levels, parameters)
            left = np.exp(2 * parameters[-1 - SIZES : -1]).sum() - ((to @ inverse) * to).sum(axis=1)
            found.append(
                Expected(
                    to @ (inverse @ self._y) + self._middle,
                    np.sqrt(np.maximum(left, 1e-12)),
                    float(np.exp(parameters[-1])),
                )
            )
        return found

    def mean(self, at: Array) -> Array:
        """By all of the likely answers."""
        found: Array = np.mean([one.mean for one in self.expected(at)], axis=0)
        return found

    def low(self, at: Array) -> Array:
        """What each point surely is: the low end of its 95 % interval, by all likely answers."""
        every = self.expected(at)
        means = np.array([one.mean for one in every])
        variance = np.mean([one.deviation**2 for one in every], axis=0) + means.var(axis=0)
        found: Array = means.mean(axis=0) - WITHIN_95 * np.sqrt(variance)
        return found

    def together(self, at: Array) -> list[Array]:
        """[n, n]: how what is not known of one goes with that of another, by each likely answer."""
        own, known = Levels.of(at, at), Levels.of(at, self._x)
        found = []
        for parameters, inverse in zip(self._likely, self._inverses, strict=True):
            to = covariance(known, parameters)
            found.append(covariance(own, parameters) - to @ inverse @ to.T)
        return found

    def difference(self, one: Array, other: Array) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of how much `one` is above `other`."""
        both = np.stack([one, other])
        means = [float(each.mean[0] - each.mean[1]) for each in self.expected(both)]
        variances = [
            max(float(left[0, 0] + left[1, 1] - 2 * left[0, 1]), 0.0)
            for left in self.together(both)
        ]
        return float(np.mean(means)), float(np.sqrt(np.mean(variances) + np.var(means)))

    def _likeliest(self) -> Array:
        """Step by step along each parameter, wider steps first."""
        best: Array = self._prior
        cost = self._cost(best)
        for step in STEPS:
            for parameter in range(len(best)):
                for way in (step, -step):
                    moved = best.copy()
                    moved[parameter] += way
                    while (found := self._cost(moved)) < cost - 1e-9:
                        best, cost = moved.copy(), found
                        moved[parameter] += way
        return best

    def _drawn(self, start: Array, count: int) -> list[Array]:
        """The same ones for the same measurements."""
        chance = np.random.default_rng([11, len(self._y)])
        here, cost, drawn = start, self._cost(start), []
        for _ in range(count):
            for parameter in MOVES * [*range(len(start))]:
                moved = here.copy()
                moved[parameter] += chance.normal(0, self._width[parameter])
                found = self._cost(moved)
                if np.log(chance.uniform()) < cost - found:
                    here, cost = moved, found
            drawn.append(here)
        return drawn

    def _cost(self, parameters: Array) -> float:
        """How unlikely, but for a constant."""
        try:
            factor = np.linalg.cholesky(self._covariance(parameters))
        except np.linalg.LinAlgError:
            return float("inf")
        half = np.linalg.solve(factor, self._y)
        unlikely = (((parameters - self._prior) / self._width) ** 2).sum() / 2
        return float(half @ half / 2 + np.log(np.diag(factor)).sum() + unlikely)

    def _covariance(self, parameters: Array) -> Array:
        """Return the covariance of the measurements, noise included."""
        found = covariance(self._levels, parameters)
        found[np.diag_indices(len(found))] += np.exp(2 * parameters[-1]) + 1e-9
        return found
