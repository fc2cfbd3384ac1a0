"""The samples of one metric in one stretch of time, and their statistics by name."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

# Beyond this many different values percentiles are kept to 3 significant digits (0.5 %),
# so that an hour under load fits in memory.
_MOST_VALUES = 2000
_SIGNIFICANT_DIGITS = 3


@dataclass
class Samples:
    """Count, sum and bounds are exact; so are percentiles of up to 2,000 different values."""

    count: float = 0.0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    # {value: how often}. Empty where only a statistic set was sent: no percentiles then.
    values: Counter[float] = field(default_factory=Counter)
    coarse: bool = False

    def add(self, value: float, times: float = 1.0) -> None:
        self.add_set(count=times, total=value * times, least=value, most=value)
        # The count may be a fraction: Counter's type knows whole ones only.
        self.values[_rounded(value) if self.coarse else value] += times  # type: ignore[assignment]
        self._coarsen()

    def add_set(self, *, count: float, total: float, least: float, most: float) -> None:
        """A statistic set, as PutMetricData takes it."""
        self.count += count
        self.total += total
        self.least = min(self.least, least)
        self.most = max(self.most, most)

    def merge(self, other: "Samples") -> None:
        self.add_set(count=other.count, total=other.total, least=other.least, most=other.most)
        self.values.update(other.values)
        self._coarsen(at_once=other.coarse)

    def percentile(self, percent: float) -> float | None:
        """The smallest value that at least `percent` of all samples do not exceed."""
        count = sum(self.values.values())
        if count == 0 or count < self.count:  # part of it came as a statistic set
            return None
        passed = 0.0
        for value in sorted(self.values):
            passed += self.values[value]
            if passed >= count * percent / 100:
                return value
        return self.most

    def _coarsen(self, *, at_once: bool = False) -> None:
        if self.coarse or not (at_once or len(self.values) > _MOST_VALUES):
            return
        exact, self.values, self.coarse = self.values, Counter(), True
        for value, times in exact.items():
            self.values[_rounded(value)] += times


def _rounded(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


_SIMPLE: dict[str, Callable[[Samples], float]] = {
    "SampleCount": lambda samples: samples.count,
    "Average": lambda samples: samples.total / samples.count,
    "Sum": lambda samples: samples.total,
    "Minimum": lambda samples: samples.least,
    "Maximum": lambda samples: samples.most,
}
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{0,10})?|100)$")
KNOWN = (*_SIMPLE, "p0 to p100")


class UnknownStatisticError(ValueError):
    """A statistic that is not emulated, such as a trimmed mean."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The statistic {name} is not emulated; known are {', '.join(KNOWN)}.")


def check_statistic(name: str) -> None:
    """Raises `UnknownStatisticError`."""
    if name not in _SIMPLE and not _PERCENTILE.match(name):
        raise UnknownStatisticError(name)


def percent_of(name: str) -> float | None:
    """99.0 for p99; None for a statistic that is no percentile."""
    match = _PERCENTILE.match(name)
    return float(match.group(1)) if match else None


def statistic(samples: Samples, name: str) -> float | None:
    """None where there is nothing to tell. Raises `UnknownStatisticError`."""
    check_statistic(name)
    if samples.count == 0:
        return None
    percent = percent_of(name)
    return _SIMPLE[name](samples) if percent is None else samples.percentile(percent)
