"""Ratios of the latency percentiles of two targets that were asked in turns.

Requests of one moment resemble each other, so pieces of the time are drawn again as a whole, the same ones
for both targets (paired block bootstrap): what slows both at once is in both.
Source: Künsch, The Jackknife and the Bootstrap for General Stationary Observations, Annals of Statistics 17
(1989)
"""

import math
from collections import Counter

import numpy as np

from servable.latencies import Latencies, bin_number, middles_ms
from servable.precision import Interval
from servable.student_t import Z975, t975
from servable_tensors.tensors import Array

# Between so many blocks and twice as many: neighbours are merged when there are more.
_BLOCKS, _FIRST_BLOCK = 32, 8
_DRAWS = 1000
# A percentile is judged only if so many answers lie beyond it: p99 of 1,000.
_BEYOND = 10


class LatencyRatio:
    """Latencies of two targets in constant memory, and the ratio of their percentiles."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Counter[int], Counter[int]]] = []
        self._size, self._filled = _FIRST_BLOCK, _FIRST_BLOCK
        self._sums, self._largest = [0.0, 0.0], [0.0, 0.0]
        self.count = 0
        """Requests that both targets answered."""

    def add(self, expected_ms: float, answered_ms: float) -> None:
        """Add a request that both answered."""
        if self._filled == self._size:
            self._next_block()
        for side, value in enumerate((expected_ms, answered_ms)):
            self._blocks[-1][side][bin_number(value)] += 1
            self._sums[side] += value
            self._largest[side] = max(self._largest[side], value)
        self._filled += 1
        self.count += 1

    def latencies(self, side: int) -> Latencies:
        """All latencies of a target: 0 the expected one, 1 the one that is judged."""
        bins = Counter[int]()
        for block in self._blocks:
            bins.update(block[side])
        return Latencies(bins=bins, sum_ms=self._sums[side], max_ms=self._largest[side])

    def ratio(self, percent: float) -> Interval | None:
        """The judged target's percentile divided by the other's, with its 95 % interval.

        None: too few answers beyond the percentile (fewer than 10).
        """
        if self.count * (100 - percent) / 100 < _BEYOND:
            return None
        drawn = np.random.default_rng(0).multinomial(
            len(self._blocks), np.full(len(self._blocks), 1 / len(self._blocks)), size=_DRAWS
        )
        value = math.log(
            self.latencies(1).percentile_ms(percent) / self.latencies(0).percentile_ms(percent)
        )
        before, after = (self._percentiles(drawn, side, percent) for side in (0, 1))
        low, high = (np.percentile(np.log(after / before), [2.5, 97.5]) - value).tolist()
        wider = t975(len(self._blocks) - 1) / Z975
        return Interval(
            value=math.exp(value),
            low=math.exp(value + wider * min(low, 0.0)),
            high=math.exp(value + wider * max(high, 0.0)),
        )

    def _percentiles(self, drawn: Array, side: int, percent: float) -> Array:
        numbers = np.array(sorted({number for block in self._blocks for number in block[side]}))
        counts = np.array(
            [[block[side][number] for number in numbers.tolist()] for block in self._blocks]
        )
        reached = (drawn @ counts).cumsum(axis=1)
        at = (reached < percent / 100 * reached[:, -1:]).sum(axis=1)
        return middles_ms(numbers[at])

    def _next_block(self) -> None:
        if len(self._blocks) == 2 * _BLOCKS:
            for left, right in zip(self._blocks[::2], self._blocks[1::2], strict=True):
                for side in (0, 1):
                    left[side].update(right[side])
            self._blocks = self._blocks[::2]
            self._size *= 2
        self._blocks.append((Counter(), Counter()))
        self._filled = 0
