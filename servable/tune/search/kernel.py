"""How alike two points are: in each setting for itself, and in all of them together.

Matern 3/2 in each setting; the mean of the settings' kernels and their product, each with a size
of its own.
Source: Duvenaud et al., Additive Gaussian Processes, 2011; Rasmussen and Williams, Gaussian
Processes for Machine Learning, chapter 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ranks = NDArray[np.intp]

# The sizes of effects alone and together, after the reaches of the settings.
SIZES = 2


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
        """Of points [n, settings] and [m, settings]."""
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
