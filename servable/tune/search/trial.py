"""One measured setting of everything, what a model learns from its value, and how many there may be."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.space import Point

Ranks = NDArray[np.intp]
Values = Sequence[float] | NDArray[np.float64]

# So much below the best, as a logarithm, is poor; how poor says nothing of where the best is.
POOR = 2.0
# Far less below the best a difference counts whole, far more only its logarithm.
BENT = 1.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Measured value of a point."""

    value: float
    """Maximised value: requests per second, or requests per dollar. 0 where nothing ran."""
    failure: str | None = None
    """Why nothing ran, or nothing within the objective."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """JSON: what the report shows of it."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int
    """Number from 0, in the order of measurement."""
    point: Point
    measured: Measurement
    seconds: float
    confirms: int = 0
    """Trials that confirm the choice at the end, this one among them, as planned before the first; else 0."""

    @property
    def usd(self) -> float:
        """Cost in US dollars; 0 on this computer."""
        return float(self.measured.about.get("usd", 0.0))


def logarithms(values: Values) -> NDArray[np.float64]:
    """Return logarithms for a model to learn from: a failure counts as the poorest that ran."""
    found = np.array(values, float)
    ran = found > 0
    if not ran.any():
        return np.zeros(len(found))
    logs = np.log(np.where(ran, found, 1.0))
    top, poorest = logs[ran].max(), logs[ran].min()
    learnt: NDArray[np.float64] = np.maximum(np.where(ran, logs, poorest), top - POOR)
    return learnt


def bent(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same order, the poor ones closer together: where the best is, they say little of it."""
    top = logs.max()
    learnt: NDArray[np.float64] = top - BENT * np.log1p((top - logs) / BENT)
    return learnt


# Assumption until settings are measured twice: two load tests of the same differ by so much (relative
# standard deviation). It counts as much as so many repeats.
NOISE, NOISE_REPEATS = 0.06, 2
# Other programs only slow: a repeat below this share of the others' middle was disturbed.
DISTURBED = 0.65


def undisturbed(tried: Ranks, values: Values) -> NDArray[np.bool_]:
    """Which measurements to learn from. `tried`: which point each is of; failures stay."""
    found = np.array(values, float)
    middles = {number: np.sort(found[tried == number]) for number in {*tried.tolist()}}
    least = [DISTURBED * middles[one][len(middles[one]) // 2] for one in tried.tolist()]
    learnt: NDArray[np.bool_] = (found == 0) | (found >= least)
    return learnt


def noise_of(tried: Ranks, logs: NDArray[np.float64]) -> float:
    """Relative standard deviation of one measurement, from those of the same points."""
    squares, free = NOISE_REPEATS * NOISE**2, NOISE_REPEATS
    for number in {*tried.tolist()}:
        repeats = logs[tried == number]
        squares += float(((repeats - repeats.mean()) ** 2).sum())
        free += len(repeats) - 1
    return math.sqrt(squares / free)


# What the stages of the search were developed for.
TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Whichever ends first. A trial that would probably not end within it is not begun."""

    trials: int = TRIALS
    minutes: float | None = None
    usd: float | None = None

    def ended(self, trials: Sequence[Trial]) -> str | None:
        """Why no other trial is begun; None while one may be. Time is that of the trials."""
        if len(trials) >= self.trials:
            return f"{self.trials} trials are done"
        spent = sum(trial.seconds for trial in trials)
        next_one = max((trial.seconds for trial in trials[-5:]), default=0.0)
        if self.minutes is not None and spent + next_one > 60 * self.minutes:
            return f"{spent / 60:.1f} of {self.minutes:.3g} minutes are spent"
        costs = [trial.usd for trial in trials]
        if self.usd is not None and sum(costs) + max(costs[-5:], default=0.0) > self.usd:
            return f"the dollars are spent: {sum(costs):.2f} in trials"
        return None

    def fit(self, trials: Sequence[Trial]) -> int:
        """Return the number of trials that fit, if they take as long as those so far."""
        spent = sum(trial.seconds for trial in trials)
        if self.minutes is None or spent <= 0:
            return self.trials
        return min(self.trials, int(60 * self.minutes / spent * len(trials)))

    def without(self, count: int, trials: Sequence[Trial]) -> "Budget":
        """Return the rest of the budget after `count` more trials as long as the longest of the last five."""
        seconds = count * max((trial.seconds for trial in trials[-5:]), default=0.0)
        usd = count * max((trial.usd for trial in trials[-5:]), default=0.0)
        return dataclasses.replace(
            self,
            trials=self.trials - count,
            minutes=None if self.minutes is None else self.minutes - seconds / 60,
            usd=None if self.usd is None else self.usd - usd,
        )

    def seconds_left(self, trials: Sequence[Trial]) -> float | None:
        """An estimate from the trials so far; None before the first."""
        if not trials:
            return None
        spent = sum(trial.seconds for trial in trials)
        left = (self.trials - len(trials)) * spent / len(trials)
        if self.minutes is not None:
            left = min(left, 60 * self.minutes - spent)
        return max(0.0, left)
