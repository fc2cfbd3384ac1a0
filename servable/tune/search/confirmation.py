"""Verdict of a search: the choice and today's settings, measured again in pairs.

Only the pairs decide. The trials before them have picked the best of many, so also the luckiest of them. How many
pairs there are follows from the noise before the first of them: Student's t then holds without a correction
for several looks. Source: Montgomery, Design and Analysis of Experiments, section 2.5 (paired comparisons).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

from servable.precision import Interval
from servable.student_t import t975
from servable.tune.search.trial import DISTURBED

Verdict = Literal["better", "not better", "cannot be told"]
# A smaller gain is no reason to change what runs.
LEAST_GAIN = 0.05
# Half of the interval of the pairs that are planned: a gain of 15 % is then shown nearly always.
_HALF_WIDTH = 0.075
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
    calm = _undisturbed(pairs)
    logs = [math.log(choice / today) for choice, today in calm]
    if len(logs) < 2:
        return Confirmation(pairs=len(logs))
    gain, deviation = mean(logs), stdev(logs)
    half = _half_width(deviation, len(logs))
    ends = (math.expm1(gain + way * half) for way in (0, -1, 1))
    found = Confirmation(
        pairs=len(logs), gain=Interval(**dict(zip(("value", "low", "high"), ends, strict=True)))
    )
    if found.verdict != "cannot be told":
        return found
    told = max(gain, math.log1p(LEAST_GAIN) - gain)
    return Confirmation(
        pairs=found.pairs, gain=found.gain, needed=pairs_within(told, deviation, more_than=len(logs))
    )


def pairs_planned(noise: float, most: int) -> int:
    """Return the pairs that show a gain worth having. `noise`: relative deviation of one measurement."""
    return pairs_within(_HALF_WIDTH, noise * math.sqrt(2), most=most)


def pairs_within(half: float, deviation: float, *, more_than: int = 1, most: int = 100_000) -> int:
    """Return the least number of pairs whose interval is at most so wide to either side."""
    pairs = max(more_than + 1, math.floor((1.96 * deviation / half) ** 2))
    while pairs < most and _half_width(deviation, pairs) > half:
        pairs += 1
    return min(pairs, most)


def _half_width(deviation: float, pairs: int) -> float:
    return t975(pairs - 1) * deviation / math.sqrt(pairs)


def _undisturbed(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leave out pairs in which something else on the computer slowed one of both, as long as they are few."""
    least = [DISTURBED * sorted(arm)[len(arm) // 2] for arm in zip(*pairs, strict=True)]
    calm = [pair for pair in pairs if all(v >= m > 0 for v, m in zip(pair, least, strict=True))]
    enough = len(pairs) - len(calm) <= _DISTURBED_SHARE * len(pairs)
    return calm if enough else [pair for pair in pairs if min(pair) > 0]
