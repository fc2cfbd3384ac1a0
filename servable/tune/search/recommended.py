"""Which of the measured points is the best, and how much better than where the search began."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from servable.load.interval import Interval
from servable.tune.search.model import WITHIN_95, Model
from servable.tune.search.space import Point, Space
from servable.tune.search.trial import Trial, logarithms


@dataclass(frozen=True, kw_only=True)
class Rival:
    """The best of the others, where nothing is better than the start."""

    point: Point
    gain: Interval
    """Over the start, relative."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best of those measured: the one whose value is surely the highest."""

    point: Point
    value: float
    """Expected, not the luckiest measurement."""
    start: Point
    gain: Interval
    """Over the start, relative: 0.2 is 20 % more. Holds 0 where nothing better was shown."""
    noise: float
    """Relative standard deviation of one measurement, as found."""
    rival: Rival | None = None
    """None where the start is not the choice, or nothing else ran."""

    @property
    def better(self) -> bool:
        return self.gain.low > 0

    @property
    def compared(self) -> Point | None:
        """What the start is to be compared with; None where there is nothing else."""
        if self.rival is not None:
            return self.rival.point
        return None if self.point == self.start else self.point

    @property
    def compared_gain(self) -> Interval:
        """Of what the start is compared with, over the start, relative."""
        return self.gain if self.rival is None else self.rival.gain


def choose(space: Space, start: int, trials: Sequence[Trial], noise: float) -> Choice | None:
    """From all measurements together. None where nothing ran.

    The highest low end wins: of forty points the one expected most of is often one that was
    measured once, and luckily.
    """
    numbers = [space.number(trial.point) for trial in trials]
    known = [
        (at, trial.measured.value)
        for at, trial in zip(numbers, trials, strict=True)
        # What did not run tells nothing of the points beside it; where the search began is compared.
        if at is not None and (trial.measured.value > 0 or at == start)
    ]
    ran = sorted({at for at, value in known if value > 0})
    if not ran:
        return None
    at = space.features
    model = Model(
        at[[one for one, _ in known]], logarithms([value for _, value in known]), noise=noise
    )
    low = model.low(at[ran])
    best = ran[int(low.argmax())]
    others = [(sure, one) for sure, one in zip(low, ran, strict=True) if one != start]

    def over_start(point: int) -> Interval:
        gain, deviation = model.difference(at[point], at[start])
        low, high = gain - WITHIN_95 * deviation, gain + WITHIN_95 * deviation
        return Interval(value=math.expm1(gain), low=math.expm1(low), high=math.expm1(high))

    rival = None
    if best == start and others:
        second = max(others)[1]
        rival = Rival(point=space.point(second), gain=over_start(second))
    return Choice(
        point=space.point(best),
        value=math.exp(float(model.mean(at[[best]])[0])),
        start=space.point(start),
        gain=Interval(value=0.0, low=0.0, high=0.0) if best == start else over_start(best),
        noise=model.noise,
        rival=rival,
    )
