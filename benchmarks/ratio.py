"""Ratios of two sides measured in the same repeats, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

from scipy import stats


@dataclass(frozen=True)
class Ratio:
    """`low` and `high`: 95 % of the mean ratio, by Student's t over the logarithms."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"

    @property
    def shows(self) -> bool:
        """Whether one side was faster at all: an interval around 1 says nothing."""
        return not self.low <= 1 <= self.high


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Of pairs measured in the same repeat, at least two of them, all above zero."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    logs = [math.log(one) for one in ratios]
    student = float(stats.t.ppf(0.975, len(logs) - 1))
    reach = student * stdev(logs) / math.sqrt(len(logs))
    return Ratio(median(ratios), math.exp(mean(logs) - reach), math.exp(mean(logs) + reach))
