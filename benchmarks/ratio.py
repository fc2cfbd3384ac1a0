"""Ratios of two sides measured in the same repeats, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

# Student's t, 97.5 %, by the number of pairs.
STUDENT = {
    2: 12.706,
    3: 4.303,
    4: 3.182,
    5: 2.776,
    6: 2.571,
    7: 2.447,
    8: 2.365,
    9: 2.306,
    10: 2.262,
}


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
    """The ratio of two to ten pairs, each measured in the same repeat, all above zero."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    logs = [math.log(one) for one in ratios]
    reach = STUDENT[len(logs)] * stdev(logs) / math.sqrt(len(logs))
    return Ratio(median(ratios), math.exp(mean(logs) - reach), math.exp(mean(logs) + reach))
