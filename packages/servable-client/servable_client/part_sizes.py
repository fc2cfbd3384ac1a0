"""The best number of parts for a batch, found by measuring batches of that size.

The candidates are powers of two up to one part for each connection, and twice that. They
are measured in turn, so that a slow moment of the computer affects them all, each three times; the
middle of three is not moved by one hiccup, nor by the first batch's opening of connections. What
comes after one that is slower than the best by a half is left out. Then the lowest is kept, or
the fewest parts that take as long, and now and then a neighbour is measured again, since a busier
endpoint has another best.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

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
