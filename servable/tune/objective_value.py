"""What a search makes as high as it can."""

from typing import Literal

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000

Goal = Literal["throughput", "cost"]


def worth(goal: Goal, rps: float, usd_per_hour: float | None) -> float:
    """Requests per second, or predictions per dollar. ValueError: a cost without a price."""
    if goal == "throughput":
        return rps
    if usd_per_hour is None:
        raise ValueError(
            "cost needs the price of the instance, and no source states it; give --usd-per-hour"
        )
    return rps * SECONDS_PER_HOUR / usd_per_hour


def usd_per_million(rps: float, usd_per_hour: float) -> float:
    """Of predictions, each a request, on an instance that is always this busy."""
    return usd_per_hour / (rps * SECONDS_PER_HOUR) * MILLION
