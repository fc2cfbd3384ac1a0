"""Lines of docs/performance.md: tables, medians with spread, ratios, bounds with verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

BOUNDS = ["| | measured | lowest to highest | wanted | |", "|---|---:|---:|---:|---|"]
# Student's t, 97.5 %, by the number of pairs from 2 on.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table whose columns are numbers, but for the first."""
    return [row(*head), f"|---|{'---:|' * (len(head) - 1)}", *(row(*cells) for cells in rows)]


def ways_table(head: Sequence[str], ways: Mapping[str, Sequence[float]]) -> list[str]:
    """A row for each way: median, smallest and largest of what was measured."""
    return table(
        ("", *head),
        [
            (way, f"{median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}")
            for way, values in ways.items()
        ],
    )


def target(label: str, measured: str, spread: str, wanted: str, met: bool) -> str:
    return row(label, measured, spread, wanted, "met" if met else "**not met**")


def short(number: float) -> str:
    """Format three digits that mean something."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def spread(values: Sequence[float], form: str = "", unit: str = "") -> str:
    """Format median, smallest and largest: 12 (10 to 15); a single value stands alone."""
    numbers = (median(values), min(values), max(values))
    middle, low, high = (f"{number:{form}}" if form else short(number) for number in numbers)
    return f"{middle}{unit} ({low} to {high})" if len(values) > 1 else f"{middle}{unit}"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound for the median of repeated measurements: `least` or `most`."""

    label: str
    values: Sequence[float]
    least: float = 0.0
    most: float = math.inf
    form: str = ".2f"
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.least <= median(self.values) <= self.most

    def row(self) -> str:
        numbers = (median(self.values), min(self.values), max(self.values))
        middle, low, high = (f"{number:{self.form}}{self.unit}" for number in numbers)
        form = ".0%" if self.form.endswith("%") else ",g"
        limit = f"at least {self.least:{form}}" if self.least else f"at most {self.most:{form}}"
        repeated = f"{low} to {high}" if len(self.values) > 1 else ""
        return target(self.label, middle, repeated, f"{limit}{self.unit}", self.met)


@dataclass(frozen=True)
class Ratio:
    """Ratio of two sides. `low` and `high`: 95 % of the mean ratio, by Student's t over the logarithms."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Compare two to ten pairs, each measured in the same repeat, all above zero."""
    ratios = quotients(above, below)
    logs = [math.log(quotient) for quotient in ratios]
    reach = STUDENT[len(logs) - 2] * stdev(logs) / math.sqrt(len(logs))
    return Ratio(median(ratios), math.exp(mean(logs) - reach), math.exp(mean(logs) + reach))


def quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide what was measured in the same repeat."""
    return [upper / lower for upper, lower in zip(above, below, strict=True)]
