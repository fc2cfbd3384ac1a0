"""Result of the measurements: the best point, its gain, and the effect of each setting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from servable.measured.precision import Interval
from servable.tune.search.confirmation import Confirmation, confirmation
from servable.tune.search.gaussian_process import WITHIN_95, GaussianProcess
from servable.tune.search.space import Point, Space, Value
from servable.tune.search.trial import Trial, logarithms, noise_of, undisturbed


@dataclass(frozen=True, kw_only=True)
class ChosenPoint:
    """The best of those measured beside today's settings, and what their comparison shows."""

    point: Point
    """The best of the others; today's settings where no others ran."""
    value: float
    """Expected, not the luckiest measurement."""
    start: Point
    """Today's settings."""
    noise: float
    """Relative standard deviation of one measurement, as found."""
    confirmation: Confirmation = field(default_factory=Confirmation)

    @property
    def better(self) -> bool:
        return self.confirmation.verdict == "better"

    @property
    def kept(self) -> Point:
        """Recommended settings: the point, or the start where nothing better was shown."""
        return self.point if self.better else self.start


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
    others = ran[ran != start]
    # What is being confirmed stays the choice, whatever its repeats do to the others.
    again = [space.number(trial.point) for trial in trials if trial.confirms]
    if again:
        others = np.array([number for number in others if number in again])
    at, logs = space.features, logarithms(values)
    calm = known & (values > 0)
    noise = noise_of(numbers[calm], logs[calm])
    model = GaussianProcess(at[numbers[known]], logs[known], noise=noise)
    best = int(others[model.expected(at[others]).low.argmax()]) if len(others) else start
    shown = confirmation(_pairs(space, start, trials))
    if best == start and (len(space) == 1 or (numbers != start).any()):
        shown = Confirmation(refuted=True)
    return ChosenPoint(
        point=space.point(best),
        value=math.exp(float(model.expected(at[[best]]).mean[0])),
        start=space.point(start),
        noise=model.noise,
        confirmation=shown,
    )


def values_of(space: Space, trials: Sequence[Trial]) -> list[tuple[int, float]]:
    """(number of the point, value); what the space no longer has is left out."""
    known = [(space.number(trial.point), trial.measured.value) for trial in trials]
    return [(number, value) for number, value in known if number is not None]


def _pairs(space: Space, start: int, trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Values of the choice and of today's settings; a pair that was interrupted is left out."""
    again = [trial for trial in trials if trial.confirms]
    pairs = []
    for one, other in zip(again[::2], again[1::2], strict=False):
        choice, today = (other, one) if space.number(one.point) == start else (one, other)
        pairs.append((choice.measured.value, today.measured.value))
    return pairs


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One value of one setting, the others as they are kept."""

    value: Value
    relative: Interval
    """Expected throughput, of that with the kept settings: 1 is the same."""


def effects(
    space: Space, trials: Sequence[Trial], choice: ChosenPoint
) -> dict[str, tuple[Effect, ...]]:
    """setting -> each value that the space has beside the others of the settings that are kept."""
    measured, at = values_of(space, trials), space.coordinates
    model = GaussianProcess(
        at[[number for number, _ in measured]],
        logarithms([value for _, value in measured]),
        noise=choice.noise,
    )
    chosen = space.number(choice.kept)
    if chosen is None:
        return {}
    rows: dict[str, tuple[Effect, ...]] = {}
    for name, values in space.grid.items():
        row = []
        for value in values:
            number = space.number({**choice.kept, name: value})
            if number is None:
                continue
            apart = (0.0, 0.0) if number == chosen else model.difference(at[number], at[chosen])
            mean, half = apart[0], WITHIN_95 * apart[1]
            low, high = math.exp(mean - half), math.exp(mean + half)
            relative = Interval(value=math.exp(mean), low=low, high=high)
            row.append(Effect(value=value, relative=relative))
        if len(row) > 1:
            rows[name] = tuple(row)
    return rows
