"""Verdict of a search: the choice and today's settings, measured again in pairs.

Only the pairs decide: the trials before them picked the best of many, and so the luckiest. Their number
follows from the noise before the first of them, so Student's t needs no correction for several looks.
Source: Montgomery, Design and Analysis of Experiments, section 2.5 (paired comparisons).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from servable.measured.precision import Interval
from servable.measured.student_t import t975
from servable.tune.search.trial import DISTURBED, TRIALS

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


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Comparison of the choice with today's settings. `gain`: None where there are fewer than two pairs."""

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


def confirmation(pairs: Sequence[tuple[float, float]]) -> Confirmation:
    """`pairs`: values of the choice and of today's settings, measured one after the other."""
    if any(choice == 0 for choice, _ in pairs):
        return Confirmation(pairs=len(pairs), refuted=True)
    logs = [math.log(choice / today) for choice, today in _undisturbed(pairs)]
    if len(logs) < 2:
        return Confirmation(pairs=len(logs))
    gain, deviation = float(np.mean(logs)), float(np.std(logs, ddof=1))
    half = _half_width(deviation, len(logs))
    ends = (math.expm1(gain + way * half) for way in (0, -1, 1))
    found = Confirmation(
        pairs=len(logs), gain=Interval(**dict(zip(("value", "low", "high"), ends, strict=True)))
    )
    if found.verdict != "cannot be told":
        return found
    told = max(gain, math.log1p(LEAST_GAIN) - gain)
    return Confirmation(
        pairs=found.pairs,
        gain=found.gain,
        needed=pairs_within(told, deviation, more_than=len(logs)),
    )


def pairs_planned(noise: float, trials: int, *, least: int) -> int:
    """Return the pairs that show a gain worth having, of at most half of the `trials`.

    `noise`: relative standard deviation of one measurement. More trials than usual bring as many times more
    pairs, so that a run with more of them tells what one with fewer could not.
    """
    enough = pairs_within(_HALF_WIDTH, noise * math.sqrt(2))
    return max(least, min(math.ceil(enough * max(1.0, trials / TRIALS)), trials // 4))


def pairs_within(half: float, deviation: float, *, more_than: int = 1) -> int:
    """Return the least number of pairs whose interval is at most so wide to either side."""
    pairs = max(more_than + 1, math.floor((1.96 * deviation / half) ** 2))
    while _half_width(deviation, pairs) > half:
        pairs += 1
    return pairs


def _half_width(deviation: float, pairs: int) -> float:
    return t975(pairs - 1) * deviation / math.sqrt(pairs)


def _undisturbed(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out pairs in which something else on the computer slowed one of both, as long as they are few."""
    ran = np.array([pair for pair in pairs if min(pair) > 0])
    if len(ran):
        logs = np.log(ran)
        below = np.median(logs, axis=0) - logs
        scatter = NORMAL_MAD * np.median(np.abs(below), axis=0)
        calm = (below <= np.maximum(_FAR * scatter, -math.log(DISTURBED))).all(axis=1)
        if (~calm).sum() <= _DISTURBED_SHARE * len(ran):
            ran = ran[calm]
    return [(choice, today) for choice, today in ran.tolist()]
