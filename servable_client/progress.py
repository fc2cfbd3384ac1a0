"""How far a long batch is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Told after each part, in the thread that called `predict`."""

    rows_done: int
    rows: int
    parts_done: int
    parts: int
    seconds: float
    """Since the first part was sent."""

    @property
    def seconds_left(self) -> float:
        """By the speed so far."""
        return self.seconds * (self.rows - self.rows_done) / max(self.rows_done, 1)


Told = Callable[[Progress], None]
