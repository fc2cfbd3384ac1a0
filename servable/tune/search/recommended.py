"""The result of the measurements: the best point, its gain, and the effect of each setting.

The choice and today's settings are measured again in pairs, and only the pairs decide: the
earlier trials selected the best of many, and so the luckiest. The number of pairs follows from
the noise before the first of them, so Student's t needs no correction for repeated checks.

Source: Montgomery, Design and Analysis of Experiments, section 2.5 (paired comparisons).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from servable.measured.precision import Interval
from servable.measured.student_t import compute_t975
from servable.tune.search.gaussian_process import WITHIN_95, GaussianProcess
from servable.tune.search.space import (
    DISTURBED,
    TRIALS,
    Point,
    Space,
    Trial,
    Value,
    compute_logarithms,
    estimate_noise,
    find_undisturbed,
)

Verdict = Literal["better", "not better", "cannot be told"]
# A smaller gain is no reason to change what runs.
LEAST_GAIN = 0.05
# Half of the interval of the pairs that are planned: a gain of 15 % is then shown nearly always.
_HALF_WIDTH = 0.075
# A measurement was slowed if it is below the middle of its settings' by DISTURBED, and by so many standard
# deviations: with less, noise of 20 % alone would be left out, and the interval be too narrow.
_FAR, NORMAL_MAD = 5.0, 1.4826
# So many of the pairs may be left out because something else slowed one of both; of more, none is.
_DISTURBED_SHARE = 0.25
# A normal distribution: nine of ten lie above so many standard deviations below the mean.
_NINE_OF_TEN = 1.28
# Of so many pairs one may be left out.
_PAIRS = 4


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The comparison of the choice with today's settings.

    `gain`: None if there are fewer than two pairs.
    """

    pairs: int = 0
    gain: Interval | None = None
    """Over today's settings, relative: 0.2 is 20 % more. The 95 % interval of the pairs alone."""
    needed: int | None = None
    """Pairs that would tell, if they varied and differed as these do."""
    refuted: bool = False
    """The choice failed in one of its trials, or its load curve is below today's."""

    @property
    def verdict(self) -> Verdict:
        if self.refuted:
            return "not better"
        if self.gain is None:
            return "cannot be told"
        if self.gain.low > 0:
            return "better"
        return "not better" if self.gain.high < LEAST_GAIN else "cannot be told"


def compare_pairs(pairs: Sequence[tuple[float, float]]) -> Confirmation:
    """Compare the choice with today's settings.

    `pairs`: values of the choice and of today's settings, measured one after the other.
    """
    if any(choice == 0 for choice, _ in pairs):
        return Confirmation(pairs=len(pairs), refuted=True)
    logs = [math.log(choice / today) for choice, today in _drop_disturbed(pairs)]
    if len(logs) < 2:
        return Confirmation(pairs=len(logs))
    gain, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    half = _compute_half_width(deviation, len(logs))
    ends = (math.expm1(gain + way * half) for way in (0, -1, 1))
    interval = Interval(**dict(zip(("value", "low", "high"), ends, strict=True)))
    found = Confirmation(pairs=len(logs), gain=interval)
    if found.verdict != "cannot be told":
        return found
    told = max(gain, math.log1p(LEAST_GAIN) - gain)
    return replace(found, needed=count_pairs_for(told, deviation, more_than=len(logs)))


def plan_pairs(noise: float, trials: int, *, least: int, gain: float = 0.0) -> int:
    """Return the number of pairs that show a worthwhile gain, in at most half of the `trials`.

    `noise`: relative standard deviation of one measurement. `gain`: logarithm of the gain that
    the search expects; fewer pairs show a third of it. With more trials than usual, the pairs
    increase in proportion, so that a longer run shows what a shorter one can't. The result is at
    least `least`.
    """
    enough = max(_PAIRS, count_pairs_for(max(_HALF_WIDTH, gain / 3), noise * math.sqrt(2)))
    return max(least, min(math.ceil(enough * max(1.0, trials / TRIALS)), trials // 4))


def estimate_shown_gain(noise: float, pairs: int) -> float:
    """Return the gain that a number of pairs shows in about nine of ten runs."""
    deviation = noise * math.sqrt(2)
    return math.expm1(
        _compute_half_width(deviation, pairs) + _NINE_OF_TEN * deviation / math.sqrt(pairs)
    )


def count_pairs_for(half: float, deviation: float, *, more_than: int = 1) -> int:
    """Return the minimum number of pairs whose interval's half width is at most `half`.

    The number is greater than `more_than`.
    """
    pairs = max(more_than + 1, math.floor((1.96 * deviation / half) ** 2))
    while _compute_half_width(deviation, pairs) > half:
        pairs += 1
    return pairs


def _compute_half_width(deviation: float, pairs: int) -> float:
    return compute_t975(pairs - 1) * deviation / math.sqrt(pairs)


def _drop_disturbed(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out the few pairs in which another program slowed one of the two measurements.

    If they aren't few, all pairs stay.
    """
    ran = np.array([pair for pair in pairs if min(pair) > 0])
    if len(ran):
        logs = np.log(ran)
        below = np.median(logs, axis=0) - logs
        scatter = NORMAL_MAD * np.median(np.abs(below), axis=0)
        calm = (below <= np.maximum(_FAR * scatter, -math.log(DISTURBED))).all(axis=1)
        if (~calm).sum() <= _DISTURBED_SHARE * len(ran):
            ran = ran[calm]
    return [(choice, today) for choice, today in ran.tolist()]


@dataclass(frozen=True, kw_only=True)
class ChosenPoint:
    """The best measured point other than today's settings, and their comparison."""

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
    def is_better(self) -> bool:
        return self.confirmation.verdict == "better"

    @property
    def recommended_point(self) -> Point:
        """Return the recommended settings.

        They are the point, or today's settings if nothing better was shown.
        """
        return self.point if self.is_better else self.start


def choose_point(space: Space, start: int, trials: Sequence[Trial]) -> ChosenPoint | None:
    """Choose a point from all measurements together; None if nothing ran.

    The highest lower bound wins: of forty points, the one with the highest expectation was often
    measured once, and luckily.
    """
    measured = list_values(space, trials)
    if not any(value for _, value in measured):
        return None
    numbers, values = (np.array(column) for column in zip(*measured, strict=True))
    # What did not run tells nothing of its neighbours; today's settings are compared.
    known = ((values > 0) | (numbers == start)) & find_undisturbed(numbers, values)
    ran = np.unique(numbers[values > 0])
    others = ran[ran != start]
    # What is being confirmed stays the choice, whatever its repeats do to the others.
    again = [space.find_number(trial.point) for trial in trials if trial.confirms]
    if again:
        others = np.array([number for number in others if number in again])
    at, logs = space.features, compute_logarithms(values)
    calm = known & (values > 0)
    noise = estimate_noise(numbers[calm], logs[calm])
    model = GaussianProcess(at[numbers[known]], logs[known], noise=noise)
    best = int(others[model.predict(at[others]).lower_bound.argmax()]) if len(others) else start
    shown = compare_pairs(_list_pairs(space, start, trials))
    if best == start and (len(space) == 1 or (numbers != start).any()):
        shown = Confirmation(refuted=True)
    return ChosenPoint(
        point=space.build_point(best),
        value=math.exp(float(model.predict(at[[best]]).mean[0])),
        start=space.build_point(start),
        noise=model.noise,
        confirmation=shown,
    )


def list_values(space: Space, trials: Sequence[Trial]) -> list[tuple[int, float]]:
    """Return (number of the point, value) of each trial.

    Points that are no longer in the space are left out.
    """
    known = [(space.find_number(trial.point), trial.measured.value) for trial in trials]
    return [(number, value) for number, value in known if number is not None]


def _list_pairs(space: Space, start: int, trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Return values of the choice and of today's settings. An interrupted pair is left out."""
    again = [trial for trial in trials if trial.confirms]
    pairs = []
    for one, other in zip(again[::2], again[1::2], strict=False):
        choice, today = (other, one) if space.find_number(one.point) == start else (one, other)
        pairs.append((choice.measured.value, today.measured.value))
    return pairs


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of one value of one setting, with the other settings as recommended."""

    value: Value
    relative: Interval
    """Expected throughput, of that with the kept settings: 1 is the same."""


def estimate_effects(
    space: Space, trials: Sequence[Trial], choice: ChosenPoint
) -> dict[str, tuple[Effect, ...]]:
    """Return {setting: effect of each of its values, with the other settings as recommended}.

    Values that aren't in the space are left out.
    """
    measured, at = list_values(space, trials), space.coordinates
    model = GaussianProcess(
        at[[number for number, _ in measured]],
        compute_logarithms([value for _, value in measured]),
        noise=choice.noise,
    )
    chosen = space.find_number(choice.recommended_point)
    if chosen is None:
        return {}
    rows: dict[str, tuple[Effect, ...]] = {}
    for name, values in space.grid.items():
        row = []
        for value in values:
            number = space.find_number({**choice.recommended_point, name: value})
            if number is None:
                continue
            apart = (
                (0.0, 0.0) if number == chosen else model.predict_difference(at[number], at[chosen])
            )
            mean, half = apart[0], WITHIN_95 * apart[1]
            low, high = math.exp(mean - half), math.exp(mean + half)
            relative = Interval(value=math.exp(mean), low=low, high=high)
            row.append(Effect(value=value, relative=relative))
        if len(row) > 1:
            rows[name] = tuple(row)
    return rows
