"""Choose the best point, and compare it with today's settings.

The choice and today's settings are measured again in turn, and only these pairs show the gain: the
earlier trials selected the luckiest. How much a measurement varies follows from the repeats of all
points. The number of pairs is planned before the first of them, so Student's t needs no correction.

Source: Montgomery, Design and Analysis of Experiments, section 2.4 (pooled estimate of variance).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from servable.measured.precision import Interval
from servable.measured.student_t import compute_t
from servable.tune.search.gaussian_process import WITHIN_95, GaussianProcess
from servable.tune.search.space import (
    DISTURBED,
    TRIALS,
    Noise,
    Point,
    Ranks,
    Space,
    Trial,
    compute_logarithms,
    estimate_noise,
    find_undisturbed,
)

Verdict = Literal["better", "not better", "cannot be told"]
# A smaller gain is no reason to change the settings.
LEAST_GAIN = 0.05
# Half of the interval of the planned pairs: a gain of 15 % is then shown nearly always.
_HALF_WIDTH = 0.1
# A measurement was slowed if it is below its settings' median by DISTURBED and so many standard deviations.
# With fewer, noise of 20 % would be left out, and the interval be too narrow.
_FAR = 5.0
# Up to this share of the measurements of the choice, or of today's settings, is left out because another
# program slowed them; of more, none is: settings that are often slow are slow.
_DISTURBED_SHARE = 1 / 3
# Repeats of a usual search before the pairs.
REPEATS = 4
# A normal distribution: nine of ten lie above so many standard deviations below the mean.
_NINE_OF_TEN = 1.28


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The comparison of the choice with today's settings."""

    pairs: int = 0
    gain: Interval | None = None
    """Relative gain over today's settings, with the pairs' 99 % interval; None with fewer than two pairs."""
    needed: int | None = None
    """Number of pairs that would decide, if they varied as these do."""
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


def plan_pair_count(noise: Noise, trials: int, *, least: int, gain: float = 0.0) -> int:
    """Return the number of pairs, at least `least`, in at most half of the `trials`.

    `noise`: of the trials before them. `gain`: logarithm of the expected gain; a large one needs
    fewer pairs. With more trials than usual, the pairs increase in proportion, so that a longer run
    shows a smaller gain.
    """
    enough = count_pairs_for(max(_HALF_WIDTH, gain / 2), noise)
    return max(least, min(math.ceil(enough * max(1.0, trials / TRIALS)), trials // 4))


def estimate_shown_gain(deviation: float, pairs: int) -> float:
    """Return the gain that a number of pairs shows in about nine of ten runs.

    Source: Johnson and Welch's approximation of the noncentral t distribution, 1940.
    """
    degrees = REPEATS + 2 * (pairs - 1)
    t, twice_free = compute_t(0.995, degrees), 2 * degrees
    far = t * math.sqrt(1 - 1 / twice_free) + _NINE_OF_TEN * math.sqrt(1 + t**2 / twice_free)
    return math.expm1(far * deviation * math.sqrt(2 / pairs))


def count_pairs_for(half: float, earlier: Noise, *, more_than: int = 1) -> int:
    """Return the number of pairs, above `more_than`, whose interval is at most twice `half` wide."""
    pairs = max(more_than + 1, math.floor(2 * (2.576 * earlier.deviation / half) ** 2))
    while True:
        noise = Noise(earlier.deviation, earlier.degrees + 2 * (pairs - 1))
        if _compute_half_width(noise, pairs, pairs) <= half:
            return pairs
        pairs += 1


def _compute_half_width(noise: Noise, choices: int, todays: int) -> float:
    """Return half of the 99 % interval of the difference between the means of so many logarithms."""
    return compute_t(0.995, noise.degrees) * noise.deviation * math.sqrt(1 / choices + 1 / todays)


@dataclass(frozen=True, kw_only=True)
class ChosenPoint:
    """The best measured point other than today's settings, and their comparison."""

    point: Point
    """Today's settings if no others ran."""
    value: float
    """Expected value, not the luckiest measurement."""
    start: Point
    """Today's settings."""
    noise: float
    """Relative standard deviation of one measurement."""
    confirmation: Confirmation = field(default_factory=Confirmation)

    @property
    def is_better(self) -> bool:
        return self.confirmation.verdict == "better"

    @property
    def recommended_point(self) -> Point:
        """Return the point, or today's settings if it wasn't shown to be better."""
        return self.point if self.is_better else self.start


def choose_point(space: Space, start: int, trials: Sequence[Trial]) -> ChosenPoint | None:
    """Choose the point with the highest lower bound; None if nothing ran.

    Of forty points, the one with the highest expectation was often measured once, and luckily.
    """
    measured = list_values(space, trials)
    if not any(value for _, value in measured):
        return None
    numbers, values = (np.array(column) for column in zip(*measured, strict=True))
    # A failure says nothing about the neighbors' values; today's settings are always compared.
    known = ((values > 0) | (numbers == start)) & find_undisturbed(numbers, values)
    ran = np.unique(numbers[values > 0])
    others = ran[ran != start]
    # The point that is being confirmed stays the choice.
    again = [space.find_number(trial.point) for trial in trials if trial.confirms]
    if again:
        others = np.array([number for number in others if number in again])
    at, logs = space.features, compute_logarithms(values)
    calm = known & (values > 0)
    noise = estimate_noise(numbers[calm], logs[calm]).deviation
    model = GaussianProcess(at[numbers[known]], logs[known], noise=noise)
    best = start
    if len(others):
        expected = model.predict(at[others])
        best = int(others[(expected.mean - WITHIN_95 * expected.deviation).argmax()])
    confirms = [trial.confirms for trial in trials if space.find_number(trial.point) is not None]
    shown = compare_with_today(numbers, values, np.array(confirms) > 0, start)
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
    """Return (number of the point, value) of each trial whose point is still in the space."""
    known = [(space.find_number(trial.point), trial.measured.value) for trial in trials]
    return [(number, value) for number, value in known if number is not None]


def compare_with_today(
    numbers: Ranks, values: NDArray[np.float64], again: NDArray[np.bool_], start: int
) -> Confirmation:
    """Compare the trials that confirm the choice, by the mask `again`, without an interrupted pair."""
    again = again & (np.cumsum(again) <= again.sum() // 2 * 2)
    if (values[again & (numbers != start)] == 0).any():
        return Confirmation(pairs=int(again.sum()) // 2, refuted=True)
    ran = values > 0
    numbers, again, logs = numbers[ran], again[ran], np.log(values[ran])
    calm = find_undisturbed(numbers, values[ran])
    usual = estimate_noise(numbers[calm], logs[calm]).deviation
    calm = find_undisturbed(numbers, values[ran], min(DISTURBED, math.exp(-_FAR * usual)))
    for number in {*numbers[again].tolist()}:
        its = numbers == number
        if (its & ~calm).sum() > _DISTURBED_SHARE * its.sum():
            calm |= its
    numbers, again, logs = numbers[calm], again[calm], logs[calm]
    choice, today = logs[again & (numbers != start)], logs[again & (numbers == start)]
    pairs = max(len(choice), len(today))
    if pairs < 2 or not (len(choice) and len(today)):
        return Confirmation(pairs=pairs)
    noise, gain = estimate_noise(numbers, logs, assumed=0), float(choice.mean() - today.mean())
    half = _compute_half_width(noise, len(choice), len(today))
    value, low, high = (math.expm1(gain + way * half) for way in (0, -1, 1))
    found = Confirmation(pairs=pairs, gain=Interval(value=value, low=low, high=high))
    if found.verdict != "cannot be told":
        return found
    enough = max(gain, math.log1p(LEAST_GAIN) - gain)
    earlier = Noise(noise.deviation, noise.degrees - 2 * (pairs - 1))
    return replace(found, needed=count_pairs_for(enough, earlier, more_than=pairs))


def estimate_effects(
    space: Space, trials: Sequence[Trial], choice: ChosenPoint
) -> dict[str, Interval]:
    """Return the throughput with today's value of each changed setting, the others as chosen.

    1 is the choice's throughput. Today's values that don't fit the choice are left out.
    """
    measured, at = list_values(space, trials), space.coordinates
    model = GaussianProcess(
        at[[number for number, _ in measured]],
        compute_logarithms([value for _, value in measured]),
        noise=choice.noise,
    )
    effects = {}
    for name, today in choice.start.items():
        chosen, back = (space.find_number({**choice.point, **one}) for one in ({}, {name: today}))
        if chosen is not None and back is not None and back != chosen:
            mean, deviation = model.predict_difference(at[back], at[chosen])
            ends = (mean, mean - WITHIN_95 * deviation, mean + WITHIN_95 * deviation)
            value, low, high = map(math.exp, ends)
            effects[name] = Interval(value=value, low=low, high=high)
    return effects
