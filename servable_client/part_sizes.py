"""Into how many parts: found by measuring what batches of that size took.

Numbers of parts double, from one. Each is tried, upwards, until one is slower than the best by
a half; then the best is kept and now and then a neighbour is asked again, since a busier
endpoint has another best.
"""

import threading
from dataclasses import dataclass, field

# Part counts up to this many times the connections: smaller parts only queue up in the client.
MOST_PARTS_PER_CONNECTION = 2
# A measurement's weight in the average; the last five count for most of it.
WEIGHT = 0.3
WORSE = 1.5
ASK_AGAIN_EVERY = 20


@dataclass
class _Measured:
    """For batches of about the same number of rows."""

    seconds_per_row: dict[int, float] = field(default_factory=dict)
    """By number of parts."""
    batches: int = 0


class PartSizes:
    """One endpoint's. Safe between threads."""

    def __init__(self, connections: int) -> None:
        self._most = connections * MOST_PARTS_PER_CONNECTION
        self._measured: dict[int, _Measured] = {}
        self._lock = threading.Lock()

    def parts(self, rows: int) -> int:
        """Into how many parts to cut the next batch."""
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _Measured())
            measured.batches += 1
            known = measured.seconds_per_row
            if not known:
                return 1
            best, highest = min(known, key=lambda count: known[count]), max(known)
            if highest * 2 <= min(self._most, rows) and known[highest] < known[best] * WORSE:
                return highest * 2
            if measured.batches % ASK_AGAIN_EVERY == 0:
                odd = measured.batches // ASK_AGAIN_EVERY % 2
                neighbour = best * 2 if odd else best // 2
                return neighbour if neighbour in known else best
            return best

    def rows(self, rows: int) -> int:
        """Of each part of the next batch."""
        return max(1, -(-rows // self.parts(rows)))

    def record(self, rows: int, parts: int, seconds: float) -> None:
        """The whole batch, its parts side by side, took so long."""
        if rows == 0:
            return
        with self._lock:
            measured = self._measured.setdefault(rows.bit_length(), _Measured())
            # A rounded-up part size can give fewer parts than were meant: count as meant.
            meant = 1 << (parts - 1).bit_length()
            known, found = measured.seconds_per_row, seconds / rows
            known[meant] = found + (known.get(meant, found) - found) * (1 - WEIGHT)
