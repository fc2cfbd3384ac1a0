"""Which sudden effects there are: chains that go through what is likely, all of them at once.

An effect is there or not; how large it is is normal, and integrated out, so that a chain only moves
between sets of effects, a common size of them and the noise.
Sources: George and McCulloch, Variable Selection via Gibbs Sampling, 1993; the corners as in
Denison, Mallick and Smith, Bayesian MARS, 1998.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.kernel import Array, Ranks

CHAINS = 24
# Corners that a chain may have, and how likely each is to be one before anything is known.
CORNERS, CORNER = 4, 0.4
# Of all corners, how many a chain looks at before it takes one.
LOOKED_AT = 48
# Logarithms of an effect's size, and how far from it is still likely.
SIZE = (np.log(0.25), 0.6)
NOISE_WIDTH = 0.3
# Standard deviation of what all points have in common, once their mean is taken off.
COMMON = 0.1
# A chain's first guess.
FIRST_SIZE, FIRST_SHARE = 0.3, 0.3
# How far a size, or the noise, tries to move.
SIZE_MOVE, NOISE_MOVE = 0.4, 0.25


@dataclass
class State:
    """Of every chain, what it holds to be so."""

    there: NDArray[np.bool_]
    """[chains, steps]"""
    corners: Ranks
    """[chains, CORNERS]: numbers of corners; -1 is none."""
    size: Array
    """[chains]: standard deviation of an effect, of logarithms."""
    noise: Array
    """[chains]: of one measurement, relative."""

    @classmethod
    def first(cls, steps: int, noise: float, chance: np.random.Generator) -> "State":
        return cls(
            there=chance.random((CHAINS, steps)) < FIRST_SHARE,
            corners=np.full((CHAINS, CORNERS), -1),
            size=np.full(CHAINS, FIRST_SIZE),
            noise=np.full(CHAINS, noise),
        )


class Sweep:
    """Moves a state along, by what was measured.

    `above`: [steps, n]. `inside`: [corners, n]. `share`: [corners], before anything is known. `y`:
    logarithms, without their mean. `noise`: what is expected of it.
    """

    def __init__(self, above: Array, inside: Array, share: Array, y: Array, noise: float) -> None:
        self._above, self._y, self._noise = above, y, noise
        # The last one is no corner at all: its number is -1.
        self._inside = np.vstack([inside, np.zeros((1, len(y)))])
        self._looked = min(LOOKED_AT, len(inside))
        # Each that is looked at stands for those that are not.
        stands_for = len(inside) / max(self._looked, 1)
        self._corner_odds = np.log(CORNER * stands_for * share)

    def inverses(self, state: State) -> Array:
        """[chains, n, n]: of the measurements' covariance, noise included."""
        found = np.linalg.inv(self._covariances(state, state.size, state.noise))
        return np.asarray(found, np.float64)

    def __call__(self, state: State, chance: np.random.Generator) -> None:
        self._sizes(state, chance)
        inverse, variance = self.inverses(state), state.size**2
        self._steps(state, inverse, variance, chance)
        if self._looked:
            self._corners(state, inverse, variance, chance)

    def _sizes(self, state: State, chance: np.random.Generator) -> None:
        """Of the effects and of the noise: Metropolis."""
        now = self._likelihood(state, state.size, state.noise)
        size = state.size * np.exp(chance.normal(0, SIZE_MOVE, CHAINS))
        then = self._likelihood(state, size, state.noise)
        taken = _taken(then - now + _likelier(size, state.size, *SIZE), chance)
        state.size, now = np.where(taken, size, state.size), np.where(taken, then, now)
        noise = state.noise * np.exp(chance.normal(0, NOISE_MOVE, CHAINS))
        then = self._likelihood(state, state.size, noise)
        likelier = _likelier(noise, state.noise, np.log(self._noise), NOISE_WIDTH)
        state.noise = np.where(_taken(then - now + likelier, chance), noise, state.noise)

    def _steps(
        self, state: State, inverse: Array, variance: Array, chance: np.random.Generator
    ) -> None:
        """Each step, by the odds that it is there; how many there are is not known either."""
        there = state.there.sum(axis=1)
        share = chance.beta(1 + there, 2 + len(self._above) - there)
        odds = np.log(share / (1 - share))
        for step in chance.permutation(len(self._above)):
            column = self._above[step]
            take_off(inverse, inverse @ column, column, variance * state.there[:, step])
            seen = inverse @ column
            worth = odds + evidence(variance, seen @ column, seen @ self._y)
            found = chance.random(CHAINS) < 1 / (1 + np.exp(-np.clip(worth, -50, 50)))
            state.there[:, step] = found
            put_on(inverse, seen, column, variance * found)

    def _corners(
        self, state: State, inverse: Array, variance: Array, chance: np.random.Generator
    ) -> None:
        """Each corner anew: none, the one it was, or one of some others."""
        every = np.arange(CHAINS)
        for place in range(CORNERS):
            was = state.corners[:, place]
            column = self._inside[was]
            seen = np.einsum("cij,cj->ci", inverse, column)
            take_off(inverse, seen, column, variance)
            some = chance.integers(len(self._corner_odds), size=(CHAINS, self._looked))
            some[:, 0] = np.where(was >= 0, was, some[:, 0])
            columns = self._inside[some]
            images = np.matmul(columns, inverse)
            spread, pull = (images * columns).sum(axis=2), images @ self._y
            worth = self._corner_odds[some] + evidence(variance[:, None], spread, pull)
            none = np.full((CHAINS, 1), np.log(1 - CORNER))
            worth = np.hstack([none, worth])
            # The largest of so many with Gumbel's noise is one drawn by its weight.
            drawn = (worth - np.log(-np.log(chance.random(worth.shape)))).argmax(axis=1)
            which = np.maximum(drawn - 1, 0)
            state.corners[:, place] = np.where(drawn > 0, some[every, which], -1)
            put_on(inverse, images[every, which], columns[every, which], variance * (drawn > 0))

    def _likelihood(self, state: State, size: Array, noise: Array) -> Array:
        """[chains]: logarithm, but for a constant."""
        factor = np.linalg.cholesky(self._covariances(state, size, noise))
        y = np.broadcast_to(self._y[:, None], (CHAINS, len(self._y), 1))
        half = np.linalg.solve(factor, y)[..., 0]
        spread = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        found: Array = -(half**2).sum(axis=1) / 2 - spread
        return found

    def _covariances(self, state: State, size: Array, noise: Array) -> Array:
        columns = self._inside[state.corners]  # [chains, CORNERS, n]
        found = np.matmul(self._above.T * state.there[:, None, :], self._above)
        found += np.matmul(columns.transpose(0, 2, 1), columns)
        found *= (size**2)[:, None, None]
        found += COMMON**2
        on = np.arange(len(self._y))
        found[:, on, on] += (noise**2)[:, None]
        covariances: Array = found
        return covariances


def evidence(variance: Array, spread: Array, pull: Array) -> Array:
    """Logarithm of how much likelier the measurements are with one effect more."""
    more = 1 + variance * spread
    found: Array = (variance * pull**2 / more - np.log(more)) / 2
    return found


def put_on(inverse: Array, seen: Array, column: Array, variance: Array) -> None:
    """The inverse with one effect more (Sherman and Morrison). `seen`: inverse @ column."""
    factor = variance / (1 + variance * (seen * column).sum(axis=-1))
    inverse -= factor[:, None, None] * seen[:, :, None] * seen[:, None, :]


def take_off(inverse: Array, seen: Array, column: Array, variance: Array) -> None:
    """And with one less."""
    put_on(inverse, seen, column, -variance)


def _likelier(to: Array, was: Array, middle: float, width: float) -> Array:
    """Before anything is measured, of what is lognormal."""
    apart = ((np.log(was) - middle) ** 2 - (np.log(to) - middle) ** 2) / (2 * width**2)
    found: Array = apart
    return found


def _taken(likelier: Array, chance: np.random.Generator) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.log(chance.random(CHAINS)) < likelier
    return found
