"""The latency objective of a load step, and the value that a search maximises."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from servable.load.measurement import LoadStep

# An open loop that is answered less than this share of what was sent has a queue that grows.
KEPT_UP_SHARE = 0.95


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A percentile of the latency, and how much may fail."""

    percent: float = 99.0
    most_ms: float
    most_failed_share: float = 0.01
    """More than a stray failure: an error's share below it cannot be told in a step of seconds."""

    def latency_ms(self, step: LoadStep) -> float:
        """Return the objective's percentile; infinity for a step that fails.

        Where the server does not keep up with the load, the latency grows with the time: it is at
        least more than is allowed.
        """
        if not step.latencies.count or step.failed_share > self.most_failed_share:
            return float("inf")
        found = step.latencies.percentile_ms(self.percent)
        return max(found, 1.05 * self.most_ms) if overloaded(step) else found

    def met_by(self, step: LoadStep) -> bool:
        return self.latency_ms(step) <= self.most_ms

    def spread(self, step: LoadStep) -> float:
        """Standard deviation of that percentile's logarithm, as far as the step tells."""
        known = {95.0: step.p95_interval_ms, 99.0: step.p99_interval_ms}.get(self.percent)
        if known is None or not 0 < known.low <= known.high:
            return _UNKNOWN_SPREAD
        return float(max(_LEAST_SPREAD, np.log(known.high / known.low) / 3.92))


# A bin of the latencies is 1 % wide.
_LEAST_SPREAD = 0.005
# 10 %: of a tail percentile in a step of a few hundred answers.
_UNKNOWN_SPREAD = 0.1


def overloaded(step: LoadStep) -> bool:
    """An open loop whose answers fall behind what is sent."""
    if step.rate_rps is None:
        return False
    # What was sent, not what was meant: random arrivals differ from their mean by chance.
    return step.throughput_rps.value < KEPT_UP_SHARE * step.sent / step.seconds


SECONDS_PER_HOUR = 3600
MILLION = 1_000_000

Goal = Literal["throughput", "cost"]


def objective_value(goal: Goal, rps: float, usd_per_hour: float | None) -> float:
    """Requests per second, or predictions per dollar. ValueError: a cost without a price."""
    if goal == "throughput":
        return rps
    if usd_per_hour is None:
        raise ValueError(
            "cost needs the price of the instance, and no source states it; write it into "
            "prices.instance_usd_per_hour"
        )
    return rps * SECONDS_PER_HOUR / usd_per_hour


def usd_per_million(rps: float, usd_per_hour: float) -> float:
    """Return US dollars per million requests on an instance that is always this busy."""
    return usd_per_hour / (rps * SECONDS_PER_HOUR) * MILLION
