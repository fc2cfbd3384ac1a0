"""Measured values and their precision, computed from their variation during the measurement.

Responses of one moment resemble each other (a long queue stays long), so single responses say too
little about the next. The time is therefore cut into batches, and the batches are compared (batch
means). Source: Law, Simulation Modeling and Analysis, 5th edition, section 9.5.3.

Latencies are counted in bins of constant relative width, as HdrHistogram
(http://hdrhistogram.org) does. A bin is 1 % wide, so a percentile read from the counts is within
0.5 % of the one read from the single values. The counts of several processes and of several steps
can be added; percentiles can't.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
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
    """Latencies in milliseconds, each counted from the scheduled send time of its request."""

    bins: dict[int, int] = field(default_factory=dict)
    """Answers by bin; only the bins that have some."""
    sum_ms: float = 0.0
    max_ms: float = 0.0

    @classmethod
    def from_milliseconds(cls, milliseconds: Iterable[float]) -> "Latencies":
        values = np.fromiter(milliseconds, float)
        if not len(values):
            return cls()
        # Not np.unique, which imports numpy.ma when it is first called: 20 ms in the middle of a load step.
        bins = Counter(find_bins(values).tolist())
        return cls(
            bins=dict(sorted(bins.items())), sum_ms=float(values.sum()), max_ms=float(values.max())
        )

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

    def select_above(self, milliseconds: float) -> "Latencies":
        """Return the responses of the bins above the bin of `milliseconds`; a bin is 1 % wide."""
        limit = find_bin(milliseconds)
        return Latencies(bins={at: count for at, count in self.bins.items() if at > limit})

    def compute_percentile_ms(self, percent: float) -> float:
        """Return a percentile as np.percentile does, within half a bin; NaN if there are no responses."""
        if not self.bins:
            return math.nan
        numbers = np.array(sorted(self.bins))
        reached = np.cumsum([self.bins[number] for number in numbers.tolist()])
        rank = percent / 100 * (int(reached[-1]) - 1)
        neighbors = np.searchsorted(reached, [math.floor(rank), math.ceil(rank)], side="right")
        below, above = compute_middles_ms(numbers)[neighbors].tolist()
        return min(float(below + (above - below) * (rank % 1)), self.max_ms)

    @property
    def p50_ms(self) -> float:
        return self.compute_percentile_ms(50)

    @property
    def p95_ms(self) -> float:
        return self.compute_percentile_ms(95)

    @property
    def p99_ms(self) -> float:
        return self.compute_percentile_ms(99)


def find_bins(milliseconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each latency. A latency beyond either end goes into the bin at that end."""
    above = np.log(np.maximum(milliseconds, LEAST_MS) / LEAST_MS) / WIDTH
    numbers: NDArray[np.int64] = np.minimum(above, BINS - 1).astype(np.int64)
    return numbers


def find_bin(milliseconds: float) -> int:
    """Return the bin of one latency, as `find_bins` does."""
    return min(int(math.log(max(milliseconds, LEAST_MS) / LEAST_MS) / WIDTH), BINS - 1)


def compute_middles_ms(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    middles: NDArray[np.float64] = LEAST_MS * np.exp((numbers + 0.5) * WIDTH)
    return middles


WINDOW_SECONDS = 0.1
# 20 batches: fewer make the interval wide by themselves, more make them resemble each other.
BATCHES = 20
# Student's t, 97.5 %, for 20 batches. Source: any table of it.
T_95 = 2.093
BLOCKS = 10
_DRAWS = 200
# So few blocks vary less than what they are drawn from: t of 10 for the normal's 1.96, n / (n - 1).
_FEW_BLOCKS = 2.262 / 1.96 * (10 / 9) ** 0.5


def format_number(value: float, within: float = 0.0) -> str:
    """Format a number with four significant digits, as people write them.

    For example 75,120 and not 7.512e+04, or 0.0125. `within`: how precisely the value is known,
    such as half of an interval; the digits end with the second significant digit of `within`, and
    at least one digit remains.
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    size = math.floor(math.log10(abs(value)))
    decimals = 3 - size
    if math.isfinite(within) and within > 0:
        decimals = max(min(decimals, 1 - math.floor(math.log10(within))), -size)
    text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if decimals > 0 else text


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The 95 % interval: `low` to `high` contains the true value in 95 of 100 measurements."""

    value: float
    low: float
    high: float

    @property
    def half_width_share(self) -> float:
        """Return half of the interval's width as a share of the value: 0.05 is "within 5 %"."""
        if self.value == 0:
            return 0.0 if self.low == self.high else float("inf")
        return (self.high - self.low) / 2 / abs(self.value)

    @property
    def short_text(self) -> str:
        """Return the value without the interval, without digits that are beyond its precision."""
        return format_number(self.value, (self.high - self.low) / 2)

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        return f"{self.short_text} ({format_number(self.low, half)} to {format_number(self.high, half)})"


def compute_throughput(
    answered: Sequence[int] | NDArray[np.int64], window_seconds: float
) -> Interval:
    """Return the responses per second, computed from the responses of each window, in order.

    With too few windows, the interval is so wide that the value is unknown.
    """
    counts = np.asarray(answered, float)
    size = len(counts) // BATCHES
    if not size:
        rps = float(counts.mean() / window_seconds) if len(counts) else 0.0
        return Interval(value=rps, low=0.0, high=2 * rps or 1.0)
    # What does not fill a batch is left out at the beginning: the oldest.
    means = counts[len(counts) - size * BATCHES :].reshape(BATCHES, size).mean(axis=1)
    rps = float(means.mean() / window_seconds)
    half = float(T_95 * means.std(ddof=1) / np.sqrt(BATCHES) / window_seconds)
    return Interval(value=rps, low=max(0.0, rps - half), high=rps + half)


def compute_percentile(blocks: Sequence[Latencies], percent: float) -> Interval | None:
    """Return a percentile, in ms, of the latencies in successive blocks of the time.

    The blocks are resampled as a whole (block bootstrap). None: there were no responses.
    """
    pieces = [piece for piece in blocks if piece.count]
    if not pieces:
        return None
    numbers = np.array(sorted({number for piece in pieces for number in piece.bins}))
    counts = np.array([[piece.bins.get(number, 0) for number in numbers] for piece in pieces])
    # At most BLOCKS, neighbours together.
    starts = [part[0] for part in np.array_split(np.arange(len(counts)), min(BLOCKS, len(counts)))]
    merged = np.add.reduceat(counts, starts, axis=0)
    times = np.random.default_rng(0).multinomial(
        len(merged), np.full(len(merged), 1 / len(merged)), size=_DRAWS
    )
    reached = (np.vstack([np.ones_like(times[0]), times]) @ merged).cumsum(axis=1)
    wanted = percent / 100 * reached[:, -1:]
    found, *drawn = compute_middles_ms(numbers[(reached < wanted).sum(axis=1)]).tolist()
    value = sum(pieces, start=Latencies()).compute_percentile_ms(percent)
    ratio = np.maximum(np.percentile(drawn, [2.5, 97.5]) / found, 1e-9) ** _FEW_BLOCKS
    low, high = (value * ratio).tolist()
    return Interval(value=value, low=min(low, value), high=max(high, value))
