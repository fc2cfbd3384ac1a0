"""Columns of an output whose numbers are so much smaller than others of their rows that no change of them is
seen: the tolerance is a share of the largest number of the row."""

import numpy as np

from servable.answers.differences import Tolerance, by_row, references
from servable_tensors.tensors import Array

# An answer of more numbers in a row is an embedding or an image, whose columns are not looked at one by one.
_MOST_COLUMNS = 4096
UNSEEN_CHANGE = 0.01
"""A column is named if a change by this share of its own largest number stays within the tolerance."""


class ColumnSizes:
    """`add` each expected array; `unseen` are the columns that are far below the scale of their rows."""

    def __init__(self) -> None:
        self._largest: Array | None = None
        """Each column's largest share of what it is judged beside."""
        self._relative = 0.0
        self._alike = True

    @np.errstate(all="ignore")
    def add(self, array: Array, tolerance: Tolerance | None, rows: int) -> None:
        if array.dtype.kind != "f" or tolerance is None or tolerance.absolute is not None:
            return
        sizes = np.abs(by_row(array, rows).astype(np.float64))
        if not 2 <= sizes.shape[1] <= _MOST_COLUMNS:
            return
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        shares = np.nan_to_num(sizes / references(sizes, tolerance)).max(axis=0, initial=0.0)
        self._relative = tolerance.relative
        if self._largest is None:
            self._largest = shares
        elif len(self._largest) == len(shares):
            self._largest = np.maximum(self._largest, shares)
        else:  # answers of several lengths have no columns
            self._alike = False

    @property
    def count(self) -> int:
        return 0 if self._largest is None or not self._alike else len(self._largest)

    @property
    def unseen(self) -> list[int]:
        """Numbers of the columns, from 1. Columns of zeros have no size."""
        if not self.count or self._largest is None:
            return []
        small = (self._largest > 0) & (UNSEEN_CHANGE * self._largest < self._relative)
        return [int(number) + 1 for number in np.flatnonzero(small)]
