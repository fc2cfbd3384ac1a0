"""Two opinions of what is expected, each with as much say as it has earned.

Earned: by how well it expects each measurement from all the others.
Sources: Gelfand, Dey and Chang, Model Determination Using Predictive Distributions, 1992, for the
average over answers; Yao, Vehtari, Simpson and Gelman, Using Stacking to Average Bayesian
Predictive Distributions, 2018, for such weights.
"""

from collections.abc import Sequence

import numpy as np

from servable.tune.search.kernel import Array, Ranks
from servable.tune.search.model import Expected, Model
from servable.tune.search.sudden import Sudden

# Of what one has earned more than the other: it is itself known to a few units only.
TEMPERED = 0.5
# What the sudden one must earn more to have the same say: settings act smoothly until shown not to.
AHEAD = 2.0
# A smaller say is none.
SMALL = 0.02


class Opinions:
    """`model`: of points with these features `at`. `sudden`: None while it has learnt nothing."""

    def __init__(self, model: Model, at: Array, sudden: Sudden | None) -> None:
        self._model, self._at, self._sudden = model, at, None
        self._weights = np.full(model.answers, 1 / model.answers)
        if sudden is not None and (share := say(model.left_out(), sudden.left_out())) > SMALL:
            self._sudden = sudden
            each = np.full(sudden.answers, share / sudden.answers)
            self._weights = np.append(self._weights * (1 - share), each)

    def expected(self, points: Ranks) -> list[Expected]:
        found = self._model.expected(self._at[points])
        return found if self._sudden is None else found + self._sudden.expected(points)

    def together(self, points: Ranks) -> list[Array]:
        """[n, n]: how what is not known of one goes with that of another."""
        found = self._model.together(self._at[points])
        return found if self._sudden is None else found + self._sudden.together(points)

    def average(self, each: Sequence[Array]) -> Array:
        """Of one number for each answer, by its say."""
        found: Array = np.average(each, axis=0, weights=self._weights)
        return found


def say(smooth: Array, sudden: Array) -> float:
    """Of the sudden one, of 1. [answers, n]: log densities of each measurement, by the others."""
    ahead = _earned(sudden) - _earned(smooth) - AHEAD
    return float(1 / (1 + np.exp(-np.clip(TEMPERED * ahead, -50, 50))))


def _earned(left_out: Array) -> float:
    """Of all answers together: those that a measurement surprises were likelier without it."""
    surprise = np.logaddexp.reduce(-left_out, axis=0) - np.log(len(left_out))
    return float(-surprise.sum())
