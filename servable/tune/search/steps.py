"""The sudden effects that a grid may have: steps, and corners in which two steps meet."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.kernel import Array, Ranks
from servable.tune.search.space import Space


@dataclass(frozen=True)
class Steps:
    """Between every two values of a setting that follow each other there may be a step."""

    above: NDArray[np.bool_]
    """[steps, points]: which points lie above it."""
    setting: Ranks
    """[steps]: whose it is."""

    @classmethod
    def of(cls, space: Space) -> "Steps":
        above, setting = [], []
        for number, column in enumerate(space.coordinates.T):
            for value in np.unique(column)[:-1]:
                above.append(column > value + 1e-9)
                setting.append(number)
        found = np.array(above, bool).reshape(len(above), len(space))
        return cls(found, np.array(setting, np.intp))

    def __len__(self) -> int:
        return len(self.above)

    @cached_property
    def corners(self) -> Ranks:
        """[corners, 4]: step, side, step of another setting, side."""
        pairs = [
            (one, other)
            for one, other in itertools.combinations(range(len(self)), 2)
            if self.setting[one] != self.setting[other]
        ]
        sides = ((0, 0), (0, 1), (1, 0), (1, 1))
        found = [(one, left, other, right) for one, other in pairs for left, right in sides]
        return np.array(found, np.intp).reshape(len(found), 4)

    @cached_property
    def corner_share(self) -> Array:
        """[corners]: of each, before anything is known: as much for each pair of settings."""
        pair = self.setting[self.corners[:, [0, 2]]] @ np.array([len(self) + 1, 1])
        _, which, count = np.unique(pair, return_inverse=True, return_counts=True)
        found: Array = 1 / (count[which] * len(count))
        return found

    def inside(self, corners: Ranks, points: Ranks) -> Array:
        """[corners, points]: 1 where a point lies in the corner."""
        one, left, other, right = self.corners[corners].T
        above = self.above[:, points]
        both = (above[one] == left[:, None]) & (above[other] == right[:, None])
        found: Array = both.astype(float)
        return found
