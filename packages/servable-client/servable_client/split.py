"""One batch cut into parts by its rows, the first dimension of its arrays; how many parts is measured."""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from servable_client.arrays import Array, Arrays
from servable_client.errors import BadInputError


@dataclass(frozen=True, kw_only=True)
class Split:
    """The size of a part: `rows`, or `bytes` of its arrays; neither: chosen by measured latency.

    Inputs named in `whole`, and scalars, go into every part as they are. `constant` names the
    outputs that are one for all parts, and by it the others have a row for each row; None: the
    lengths of the answers tell, for which the parts are not all made of one length.
    """

    rows: int | None = None
    bytes: int | None = None
    whole: frozenset[str] = frozenset()
    constant: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and self.bytes is not None:
            raise BadInputError("split: give rows or bytes, not both")
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and (type(value) is not int or value < 1):
                raise BadInputError(f"split: {name}={value!r}; give a whole number from 1")

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
    raise BadInputError(f'split {size!r}: give rows of a part, "measured", or a Split(…)')


@dataclass(frozen=True)
class Part:
    rows: range
    arrays: Arrays


def rows_of(arrays: Arrays, whole: frozenset[str]) -> int:
    """Return the number of rows of all arrays. Raises `BadInputError` if they differ."""
    if missing := whole - arrays.keys():
        raise BadInputError(f"split: {', '.join(sorted(missing))}: no such input to be sent whole")
    counts = {n: len(a) for n, a in arrays.items() if a.ndim and n not in whole}
    if not counts:
        raise BadInputError("split: no input has rows to split by")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise BadInputError(
            f"split: inputs with different numbers of rows ({listed}); "
            "name in Split(whole=…) what belongs to every part"
        )
    return next(iter(counts.values()))


def parts(arrays: Arrays, split: Split, *, measured_rows: int = 0) -> list[Part]:
    """Cut arrays into parts, in order; views, not copies. An empty batch is one part without rows."""
    total = rows_of(arrays, split.whole)
    cut = {n: array for n, array in arrays.items() if array.ndim and n not in split.whole}
    if total == 0:
        bounds = [0, 0]
    elif split.bytes is not None:
        bounds = _bounds_by_bytes(cut.values(), total, split.bytes)
    else:
        bounds = list(range(0, total, split.rows or max(1, measured_rows))) + [total]
    if split.constant is None:
        bounds = _of_different_lengths(bounds, free=split.measured)
    pieces = []
    for first, last in pairwise(bounds):
        piece = {name: array[first:last] for name, array in cut.items()}
        # In the order of the inputs, with those that go into every part.
        pieces.append(Part(range(first, last), {**arrays, **piece}))
    return pieces


def _of_different_lengths(bounds: list[int], *, free: bool) -> list[int]:
    """Change bounds so that parts differ in length: then an answer's lengths tell rows from constants.

    Where parts may be longer, the first takes a row of the last (`free`); else the last is cut in
    two, which is one request more. Parts that may have one row each stay as they are.
    """
    lengths = {last - first for first, last in pairwise(bounds)}
    if len(bounds) < 3 or len(lengths) > 1:
        return bounds
    if free:
        moved = [bounds[0], *(bound + 1 for bound in bounds[1:-1]), bounds[-1]]
        return sorted(set(moved))
    return bounds if lengths == {1} else [*bounds[:-1], bounds[-1] - 1, bounds[-1]]


def _bounds_by_bytes(cut: Iterable[Array], total: int, most_bytes: int) -> list[int]:
    """Return where parts begin and end; each has at most `most_bytes`, or one row."""
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
    """Measurements of batches with about the same number of rows."""

    seconds_per_row: dict[int, deque[float]] = field(default_factory=dict)
    """Seconds per row of recent batches, by number of parts."""
    kept: int = 0
    """Batches since a neighbour was asked."""
    asked: int = 0

    def count(self, parts: int) -> int:
        return len(self.seconds_per_row.get(parts, ()))

    def middle(self, parts: int) -> float:
        """Return the median seconds per row; of an even number of values, the lower one."""
        ordered = sorted(self.seconds_per_row[parts])
        return ordered[(len(ordered) - 1) // 2]


class PartSizes:
    """The best number of parts for one endpoint. Thread-safe."""

    def __init__(self, connections: int) -> None:
        doubled = (1 << power for power in range(connections.bit_length()))
        below = [count for count in doubled if count < connections]
        self._counts = [*below, connections, connections * MOST_PARTS_PER_CONNECTION]
        self._measured: dict[int, _BatchTimes] = {}
        self._lock = threading.Lock()

    def parts(self, rows: int) -> int:
        """Return into how many parts to cut the next batch; `record` its duration under this number."""
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _BatchTimes())
            counts = [count for count in self._counts if count <= max(1, rows)]
            tried = _worth_trying(counts, measured)
            least = min(tried, key=measured.count)
            if measured.count(least) < MEASUREMENTS:
                return least
            return _kept_or_neighbour(tried, measured)

    def record(self, rows: int, parts: int, seconds: float) -> None:
        """Record how long a whole batch took."""
        if rows == 0:
            return
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _BatchTimes())
            of = measured.seconds_per_row.setdefault(parts, deque(maxlen=KEPT))
            of.append(seconds / rows)


def _worth_trying(counts: list[int], measured: _BatchTimes) -> list[int]:
    """Return the counts up to one that is not measured yet or is slower than the best by a half."""
    best = float("inf")
    for place, count in enumerate(counts):
        if not measured.count(count):
            return counts[: place + 1]
        best = min(best, measured.middle(count))
        if measured.middle(count) > best * WORSE:
            return counts[: place + 1]
    return counts


def _kept_or_neighbour(tried: list[int], measured: _BatchTimes) -> int:
    enough = min(map(measured.middle, tried)) * NO_DIFFERENCE
    best = next(count for count in tried if measured.middle(count) <= enough)
    place = tried.index(best)
    neighbours = tried[max(0, place - 1) : place] + tried[place + 1 : place + 2]
    if not neighbours:
        return best
    measured.kept += 1
    neighbour = neighbours[measured.asked % len(neighbours)]
    slower = measured.middle(neighbour) / measured.middle(best) - 1
    if measured.kept < max(ASK_AGAIN_EVERY, slower / ASKING_SHARE):
        return best
    measured.kept, measured.asked = 0, measured.asked + 1
    return neighbour
