"""Percentiles of a stream of numbers in constant memory: counts in bins of constant relative width.

As DDSketch does it: a percentile read from the counts is within 2.5 % of the one of all single numbers.
Source: Masson, Rim, Lee, DDSketch, https://arxiv.org/abs/1908.10693
"""

import math

import numpy as np

from servable_tensors.tensors import Array

_LEAST, _WIDTH = 1e-20, math.log(1.05)
_BINS = math.ceil(math.log(1e40) / _WIDTH)


class Sketch:
    """Numbers of at least 0; infinite ones too. What is below 1e-20 or above 1e20 goes into the bin at that
    end."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)
        self._zeros = 0
        self.largest = 0.0
        """The largest number, exactly."""

    def add(self, values: Array) -> None:
        positive = values[values > 0]
        self._zeros += values.size - positive.size
        if positive.size:
            self.largest = max(self.largest, float(positive.max()))
            above = np.log(np.clip(positive, _LEAST, 1e20) / _LEAST) / _WIDTH
            counts = np.bincount(np.minimum(above, _BINS - 1).astype(np.int64))
            self._counts[: len(counts)] += counts

    @property
    def count(self) -> int:
        return self._zeros + int(self._counts.sum())

    def percentile(self, percent: float) -> float:
        """The number that `percent` % of all do not exceed; NaN of none."""
        if not self.count:
            return math.nan
        rank = percent / 100 * self.count
        if rank <= self._zeros:
            return 0.0
        at = int(np.searchsorted(np.cumsum(self._counts), rank - self._zeros))
        return min(_LEAST * math.exp((at + 0.5) * _WIDTH), self.largest)
