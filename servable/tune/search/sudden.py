"""What is expected of every point where settings act suddenly, or not at all.

A Gaussian process takes an effect for smooth, and what two settings did apart for most of what
they will do together. Of terraces it is sure too soon: this is the other opinion.
"""

from collections.abc import Sequence

import numpy as np

from servable.tune.search.chains import CHAINS, COMMON, State, Sweep
from servable.tune.search.kernel import Array, Ranks
from servable.tune.search.model import Expected, left_out
from servable.tune.search.space import Space
from servable.tune.search.steps import Steps
from servable.tune.search.trial import bent, logarithms

# Fewer measurements do not tell sudden effects from smooth ones.
LEARN_FROM = 20
# Sweeps with the first ones, and with each that comes after.
SETTLE, EACH = 50, 10


class Sudden:
    """Learns one measurement after the other; what it expects follows from them and their order.

    `noise`: of one measurement, relative.
    """

    def __init__(self, space: Space, *, noise: float) -> None:
        self._steps, self._noise = Steps.of(space), noise
        self._learnt: list[tuple[int, float]] = []

    def learn(self, known: Sequence[int], values: Sequence[float]) -> bool:
        """`known`: numbers of points that ran, in order. False where they are too few."""
        told = [(int(number), float(value)) for number, value in zip(known, values, strict=True)]
        if len(told) < LEARN_FROM or not len(self._steps):
            return False
        if told[: len(self._learnt)] != self._learnt:
            self._learnt = []
        for count in range(max(LEARN_FROM, len(self._learnt) + 1), len(told) + 1):
            self._learn(told[:count])
        return True

    @property
    def answers(self) -> int:
        return CHAINS

    def expected(self, points: Ranks) -> list[Expected]:
        """By each chain."""
        return [self._expected(chain, points) for chain in range(CHAINS)]

    def together(self, points: Ranks) -> list[Array]:
        """[n, n]: how what is not known of one goes with that of another, by each chain."""
        found = []
        for chain, inverse in enumerate(self._inverses):
            own = self._columns(chain, points)
            to = own.T @ self._columns(chain, self._known)
            found.append(own.T @ own - to @ inverse @ to.T)
        return found

    def left_out(self) -> Array:
        """[chains, n]: log density of each measurement, expected from all the others."""
        return np.array([left_out(inverse, self._y) for inverse in self._inverses])

    def _learn(self, told: list[tuple[int, float]]) -> None:
        known = np.array([number for number, _ in told], np.intp)
        logs = bent(logarithms([value for _, value in told]))
        chance = np.random.default_rng([12, len(told)])
        fresh = not self._learnt
        if fresh:
            self._state = State.first(len(self._steps), self._noise, chance)
        self._known, self._middle = known, float(logs.mean())
        self._y = logs - self._middle
        every = np.arange(len(self._steps.corners))
        sweep = Sweep(
            above=self._steps.above[:, known].astype(float),
            inside=self._steps.inside(every, known),
            share=self._steps.corner_share,
            y=self._y,
            noise=self._noise,
        )
        for _ in range(SETTLE if fresh else EACH):
            sweep(self._state, chance)
        self._inverses = sweep.inverses(self._state)
        self._learnt = told

    def _expected(self, chain: int, points: Ranks) -> Expected:
        inverse, own = self._inverses[chain], self._columns(chain, points)
        to = own.T @ self._columns(chain, self._known)
        left = (own**2).sum(axis=0) - ((to @ inverse) * to).sum(axis=1)
        return Expected(
            to @ (inverse @ self._y) + self._middle,
            np.sqrt(np.maximum(left, 1e-12)),
            float(self._state.noise[chain]),
        )

    def _columns(self, chain: int, points: Ranks) -> Array:
        """[effects, points]: how far each effect of the chain moves a point, as a deviation."""
        state, steps = self._state, self._steps
        corners = state.corners[chain][state.corners[chain] >= 0]
        effects = np.vstack(
            [steps.above[np.ix_(state.there[chain], points)], steps.inside(corners, points)]
        )
        return np.vstack([np.full((1, len(points)), COMMON), effects * state.size[chain]])
