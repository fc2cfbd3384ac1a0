"""Splitting of a batch into parts by rows, the first dimension of its arrays.

The number of parts can be chosen by measured latency.
"""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from servable_client.errors import BadInputError
from servable_client.formats import Array, Arrays


@dataclass(frozen=True, kw_only=True)
class Split:
    """The size of a part: `rows`, or `bytes` of its arrays; otherwise measured latency decides.

    Every part contains the inputs named in `whole`, and scalars, unchanged. `constant` names the
    outputs that are the same for all parts; each of the others then has a row for each input row.
    If it is None, the lengths of the responses decide; for that the parts get different lengths.
    """

    rows: int | None = None
    bytes: int | None = None
    whole: frozenset[str] = frozenset()
    constant: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and self.bytes is not None:
            raise BadInputError("split: use either rows or bytes, not both")
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and (type(value) is not int or value < 1):
                raise BadInputError(f"split: {name}={value!r}; use a whole number, 1 or more")

    @property
    def measured(self) -> bool:
        return self.rows is None and self.bytes is None


def as_split(size: "Split | int | Literal['measured']") -> Split:
    """Return the split; a number means rows. Raises `BadInputError`."""
    if isinstance(size, Split):
        return size
    if size == "measured":
        return Split()
    if type(size) is int:
        return Split(rows=size)
    raise BadInputError(f'split {size!r}: pass rows per part, "measured", or a Split(…)')


@dataclass(frozen=True)
class Part:
    rows: range
    arrays: Arrays


def count_rows(arrays: Arrays, whole: frozenset[str]) -> int:
    """Return the number of rows that all arrays have. Raises `BadInputError` if they differ."""
    if missing := whole - arrays.keys():
        problem = f"split: {', '.join(sorted(missing))}: not an input; remove it from whole"
        raise BadInputError(problem)
    counts = {n: len(a) for n, a in arrays.items() if a.ndim and n not in whole}
    if not counts:
        raise BadInputError("split: no input has rows to split by")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise BadInputError(
            f"split: inputs with different numbers of rows ({listed}); "
            "list inputs that every part needs in Split(whole=…)"
        )
    return next(iter(counts.values()))


def cut_into_parts(arrays: Arrays, split: Split, *, measured_rows: int = 0) -> list[Part]:
    """Cut arrays into parts, in order, as views. An empty batch becomes one part without rows."""
    total = count_rows(arrays, split.whole)
    cut = {n: array for n, array in arrays.items() if array.ndim and n not in split.whole}
    if total == 0:
        bounds = [0, 0]
    elif split.bytes is not None:
        bounds = _compute_bounds(cut.values(), total, split.bytes)
    else:
        bounds = list(range(0, total, split.rows or max(1, measured_rows))) + [total]
    if split.constant is None:
        bounds = _vary_lengths(bounds, free=split.measured)
    pieces = []
    for first, last in pairwise(bounds):
        piece = {name: array[first:last] for name, array in cut.items()}
        # In the order of the inputs, with those that go into every part.
        pieces.append(Part(range(first, last), {**arrays, **piece}))
    return pieces


def _vary_lengths(bounds: list[int], *, free: bool) -> list[int]:
    """Change bounds so that parts differ in length, which distinguishes rows from constants.

    Where parts may be longer (`free`), the first takes a row of the last. Otherwise the last is
    cut in two, which costs one more request. Parts that may have one row each stay unchanged.
    """
    lengths = {last - first for first, last in pairwise(bounds)}
    if len(bounds) < 3 or len(lengths) > 1:
        return bounds
    if free:
        moved = [bounds[0], *(bound + 1 for bound in bounds[1:-1]), bounds[-1]]
        return sorted(set(moved))
    return bounds if lengths == {1} else [*bounds[:-1], bounds[-1] - 1, bounds[-1]]


def _compute_bounds(cut: Iterable[Array], total: int, most_bytes: int) -> list[int]:
    """Return the bounds of parts that have at most `most_bytes` each, or one row."""
    per_row = np.zeros(total, np.int64)
    for array in cut:
        if array.dtype == object:
            per_row += [sum(map(len, row)) for row in array.reshape(total, -1).tolist()]
        else:
            per_row += array.nbytes // total
    ends = np.cumsum(per_row)
    bounds = [0]
    while bounds[-1] < total:
        done = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        reach = int(np.searchsorted(ends, done + most_bytes, side="right"))
        bounds.append(max(reach, bounds[-1] + 1))
    return bounds


# Beyond so many parts per connection, smaller parts only queue up in the client.
MOST_PARTS_PER_CONNECTION = 2
# The fewest whose middle one is not moved by one hiccup.
MEASUREMENTS = 3
# Measurements kept for each number of parts, the last ones: three batches turn its middle.
KEPT = 5
WORSE = 1.5
# Each part is a request: fewer of them are taken where more save less than this.
NO_DIFFERENCE = 1.02
# Measuring a neighbour again costs at most this share of the time,
ASKING_SHARE = 0.02
# and is not done more often than every so many batches.
ASK_AGAIN_EVERY = 20


@dataclass
class _BatchTimes:
    """The measured times of batches that have about the same number of rows."""

    seconds_per_row: dict[int, deque[float]] = field(default_factory=dict)
    """Seconds per row of recent batches, by number of parts."""
    kept: int = 0
    """Batches since a neighbour was measured again."""
    asked: int = 0

    def count_measurements(self, parts: int) -> int:
        return len(self.seconds_per_row.get(parts, ()))

    def compute_median(self, parts: int) -> float:
        """Return the median seconds per row; for an even number of values, the lower one."""
        ordered = sorted(self.seconds_per_row[parts])
        return ordered[(len(ordered) - 1) // 2]


class PartSizes:
    """The best number of parts for the batches of one endpoint. Thread-safe."""

    def __init__(self, connections: int) -> None:
        doubled = (1 << power for power in range(connections.bit_length()))
        below = [count for count in doubled if count < connections]
        self._counts = [*below, connections, connections * MOST_PARTS_PER_CONNECTION]
        self._measured: dict[int, _BatchTimes] = {}
        self._lock = threading.Lock()

    def choose_part_count(self, rows: int) -> int:
        """Return the number of parts for the next batch. Pass it to `record` with the batch's duration."""
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _BatchTimes())
            counts = [count for count in self._counts if count <= max(1, rows)]
            tried = _select_candidates(counts, measured)
            least = min(tried, key=measured.count_measurements)
            if measured.count_measurements(least) < MEASUREMENTS:
                return least
            return _choose_count(tried, measured)

    def record(self, rows: int, parts: int, seconds: float) -> None:
        """Record how many seconds a whole batch took."""
        if rows == 0:
            return
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _BatchTimes())
            of = measured.seconds_per_row.setdefault(parts, deque(maxlen=KEPT))
            of.append(seconds / rows)


def _select_candidates(counts: list[int], measured: _BatchTimes) -> list[int]:
    """Return the counts up to one that isn't measured or takes over 1.5 times the best."""
    best = float("inf")
    for place, count in enumerate(counts):
        if not measured.count_measurements(count):
            return counts[: place + 1]
        best = min(best, measured.compute_median(count))
        if measured.compute_median(count) > best * WORSE:
            return counts[: place + 1]
    return counts


def _choose_count(tried: list[int], measured: _BatchTimes) -> int:
    enough = min(map(measured.compute_median, tried)) * NO_DIFFERENCE
    best = next(count for count in tried if measured.compute_median(count) <= enough)
    place = tried.index(best)
    neighbours = tried[max(0, place - 1) : place] + tried[place + 1 : place + 2]
    if not neighbours:
        return best
    measured.kept += 1
    neighbour = neighbours[measured.asked % len(neighbours)]
    slower = measured.compute_median(neighbour) / measured.compute_median(best) - 1
    if measured.kept < max(ASK_AGAIN_EVERY, slower / ASKING_SHARE):
        return best
    measured.kept, measured.asked = 0, measured.asked + 1
    return neighbour
