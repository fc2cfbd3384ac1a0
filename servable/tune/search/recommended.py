"""Result of the measurements: the best point, its gain, and the effect of each setting."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from servable.precision import Interval
from servable.tune.search.gaussian_process import WITHIN_95, GaussianProcess
from servable.tune.search.space import Point, Space, Value
from servable.tune.search.trial import Trial, logarithms, noise_of, undisturbed

# Two measurements of the same settings differ by more than this one time in a hundred at 7 % noise:
# what settings usually bring (10 to 30 %) drowns in it.
NOISY = 1.3


@dataclass(frozen=True, kw_only=True)
class Rival:
    """The best of the others, where nothing is better than the start."""

    point: Point
    gain: Interval
    """Over the start, relative."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Measurements of the same settings."""

    lowest: float
    """0 where one of them failed."""
    highest: float

    @property
    def noisy(self) -> bool:
        """Too far apart for a comparison of settings to mean much."""
        return self.highest > NOISY * self.lowest


@dataclass(frozen=True, kw_only=True)
class ChosenPoint:
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
    confirmed: bool | None = None
    """Whether it was the better one when both were measured again; None where they were not."""
    repeats: Repeats | None = None
    """The settings whose repeats differ most; None where nothing was measured twice."""

    @property
    def better(self) -> bool:
        """Shown by all measurements together, and not refuted by those at the end."""
        return self.gain.low > 0 and self.confirmed is not False

    @property
    def kept(self) -> Point:
        """Recommended settings: the point, or the start where nothing better was shown."""
        return self.point if self.better else self.start

    @property
    def compared(self) -> Point | None:
        """Point that the start is compared with; None where there is no other."""
        if self.rival is not None:
            return self.rival.point
        return None if self.point == self.start else self.point

    @property
    def compared_gain(self) -> Interval:
        """Relative gain over the start of what it is compared with."""
        return self.gain if self.rival is None else self.rival.gain


def choose(space: Space, start: int, trials: Sequence[Trial]) -> ChosenPoint | None:
    """Choose a point from all measurements together. None where nothing ran.

    The highest low end wins: of forty points the one expected most of is often one that was
    measured once, and luckily.
    """
    measured = values_of(space, trials)
    if not any(value for _, value in measured):
        return None
    numbers, values = (np.array(column) for column in zip(*measured, strict=True))
    # What did not run tells nothing of its neighbours; today's settings are compared.
    known = ((values > 0) | (numbers == start)) & undisturbed(numbers, values)
    ran = np.unique(numbers[values > 0])
    # What is being confirmed stays the choice, whatever its repeats do to the others.
    again = {space.number(trial.point) for trial in trials if trial.confirms}
    if again:
        ran = ran[np.isin(ran, [start, *(one for one in again if one is not None)])]
    at, logs = space.features, logarithms(values)
    calm = known & (values > 0)
    noise = noise_of(numbers[calm], logs[calm])
    model = GaussianProcess(at[numbers[known]], logs[known], noise=noise)
    low = model.expected(at[ran]).low
    best = int(ran[low.argmax()])
    others = [(sure, int(one)) for sure, one in zip(low, ran, strict=True) if one != start]

    def over_start(point: int) -> Interval:
        return _interval(math.expm1, *model.difference(at[point], at[start]))

    rival = None
    if best == start and others:
        second = max(others)[1]
        rival = Rival(point=space.point(second), gain=over_start(second))
    return ChosenPoint(
        point=space.point(best),
        value=math.exp(float(model.expected(at[[best]]).mean[0])),
        start=space.point(start),
        gain=Interval(value=0.0, low=0.0, high=0.0) if best == start else over_start(best),
        noise=model.noise,
        rival=rival,
        confirmed=_confirmed(space, best, start, trials),
        repeats=_widest_repeats(space, trials),
    )


def _interval(scale: Callable[[float], float], mean: float, deviation: float) -> Interval:
    half = WITHIN_95 * deviation
    return Interval(value=scale(mean), low=scale(mean - half), high=scale(mean + half))


def values_of(space: Space, trials: Sequence[Trial]) -> list[tuple[int, float]]:
    """(number of the point, value); what the space no longer has is left out."""
    known = [(space.number(trial.point), trial.measured.value) for trial in trials]
    return [(number, value) for number, value in known if number is not None]


def _confirmed(space: Space, best: int, start: int, trials: Sequence[Trial]) -> bool | None:
    """By the best of the repeats: what else runs on the computer only slows. One failure refutes."""
    again = [trial for trial in trials if trial.confirms]
    if best == start or not again:
        return None
    of_best, of_start = (
        [trial.measured.value for trial in again if space.number(trial.point) == number]
        for number in (best, start)
    )
    return bool(of_best and of_start) and min(of_best) > 0 and max(of_best) > max(of_start)


def _widest_repeats(space: Space, trials: Sequence[Trial]) -> Repeats | None:
    values: dict[int | None, list[float]] = {}
    for trial in trials:
        values.setdefault(space.number(trial.point), []).append(trial.measured.value)
    several = [
        Repeats(lowest=min(found), highest=max(found))
        for found in values.values()
        # What never runs is no sign of noise.
        if len(found) > 1 and max(found) > 0
    ]
    return max(several, key=lambda one: one.highest / (one.lowest or 1e-9), default=None)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One value of one setting, the others as in the choice."""

    value: Value
    relative: Interval
    """Expected throughput, of the choice's: 1 is the same."""


def effects(
    space: Space, trials: Sequence[Trial], choice: ChosenPoint
) -> dict[str, tuple[Effect, ...]]:
    """setting -> each value that the space has beside the choice's others."""
    measured, at = values_of(space, trials), space.coordinates
    model = GaussianProcess(
        at[[number for number, _ in measured]],
        logarithms([value for _, value in measured]),
        noise=choice.noise,
    )
    chosen = space.number(choice.point)
    if chosen is None:
        return {}
    rows: dict[str, tuple[Effect, ...]] = {}
    for name, values in space.grid.items():
        row = []
        for value in values:
            number = space.number({**choice.point, name: value})
            if number is None:
                continue
            apart = (0.0, 0.0) if number == chosen else model.difference(at[number], at[chosen])
            row.append(Effect(value=value, relative=_interval(math.exp, *apart)))
        if len(row) > 1:
            rows[name] = tuple(row)
    return rows
