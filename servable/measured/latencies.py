"""Latencies of the answers of a step: counts in bins of constant relative width.

A bin is 1 % wide, so a percentile read from the counts is within 0.5 % of the one read from
the single values; the counts of several processes and of several steps add up, percentiles
do not. As HdrHistogram (http://hdrhistogram.org) does it, with logarithmic bins.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# 1 microsecond; nothing over a socket is faster.
LEAST_MS = 0.001
WIDTH = math.log(1.01)
# Up to 10,000 s: SageMaker answers within 60 s, a local endpoint whenever it likes.
BINS = math.ceil(math.log(1e7 / LEAST_MS) / WIDTH)


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Milliseconds, each from the moment its request was meant to be sent."""

    bins: dict[int, int] = field(default_factory=dict)
    """Answers by bin; only the bins that have some."""
    sum_ms: float = 0.0
    max_ms: float = 0.0

    @classmethod
    def of(cls, milliseconds: Iterable[float]) -> "Latencies":
        values = np.fromiter(milliseconds, float)
        if not len(values):
            return cls()
        numbers, counts = np.unique(bin_numbers(values), return_counts=True)
        bins = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        return cls(bins=bins, sum_ms=float(values.sum()), max_ms=float(values.max()))

    def __add__(self, other: "Latencies") -> "Latencies":
        bins = Counter(self.bins) + Counter(other.bins)
        return Latencies(
            bins=dict(sorted(bins.items())),
            sum_ms=self.sum_ms + other.sum_ms,
            max_ms=max(self.max_ms, other.max_ms),
        )

    @property
    def count(self) -> int:
        return sum(self.bins.values())

    def above(self, milliseconds: float) -> "Latencies":
        """Return the answers of the bins above that of `milliseconds`: a bin is 1 % wide."""
        limit = bin_number(milliseconds)
        return Latencies(bins={at: count for at, count in self.bins.items() if at > limit})

    def percentile_ms(self, percent: float) -> float:
        """The middle of the bin in which `percent` % of the answers are reached; NaN of none."""
        if not self.bins:
            return math.nan
        numbers = np.array(sorted(self.bins))
        reached = np.cumsum([self.bins[number] for number in numbers.tolist()])
        at = np.searchsorted(reached, percent / 100 * reached[-1])
        return min(float(middles_ms(numbers)[at]), self.max_ms)

    @property
    def p50_ms(self) -> float:
        return self.percentile_ms(50)

    @property
    def p95_ms(self) -> float:
        return self.percentile_ms(95)

    @property
    def p99_ms(self) -> float:
        return self.percentile_ms(99)


def bin_numbers(milliseconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each latency; one beyond either end goes into the bin at that end."""
    above = np.log(np.maximum(milliseconds, LEAST_MS) / LEAST_MS) / WIDTH
    numbers: NDArray[np.int64] = np.minimum(above, BINS - 1).astype(np.int64)
    return numbers


def bin_number(milliseconds: float) -> int:
    """Return the bin of one latency, as `bin_numbers` does."""
    return min(int(math.log(max(milliseconds, LEAST_MS) / LEAST_MS) / WIDTH), BINS - 1)


def middles_ms(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    middles: NDArray[np.float64] = LEAST_MS * np.exp((numbers + 0.5) * WIDTH)
    return middles
