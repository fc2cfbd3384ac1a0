"""A measured value and how well it is known."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """`low` to `high` holds the true value in 95 of 100 measurements."""

    value: float
    low: float
    high: float

    @property
    def half_width_share(self) -> float:
        """Half of the interval, as a share of the value: 0.05 is "within 5 %"."""
        if self.value == 0:
            return 0.0 if self.low == self.high else float("inf")
        return (self.high - self.low) / 2 / abs(self.value)
