"""What an environment costs, and what a change to it costs."""

from dataclasses import asdict, dataclass
from typing import Any

from infra.parameters.environment import Environment
from servable.cost.variant_cost import (
    EXAMPLE_SECONDS,
    MILLION,
    SECONDS_PER_HOUR,
    WHICH,
    VariantCost,
    Which,
    variant_cost,
)

__all__ = [
    "EXAMPLE_SECONDS",
    "HOURS_PER_MONTH",
    "NOT_INCLUDED",
    "WHICH",
    "Cost",
    "VariantCost",
    "Which",
    "cost",
]

# A year of 8,760 hours by 12, as AWS's own pricing pages count.
# https://aws.amazon.com/calculator/calculator-assumptions/
HOURS_PER_MONTH = 730

NOT_INCLUDED = (
    "not included: alarms, dashboard, logs, stored archives and samples, keys, data sent out"
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """All variants of one environment together."""

    environment: str
    variants: tuple[VariantCost, ...]
    p99_latency_ms: float | None
    """The objective that the file states."""

    @property
    def unknown(self) -> list[str]:
        """What has no price; the sums are then of the others."""
        return sorted({one.unknown for one in self.variants if one.unknown is not None})

    @property
    def paid_by_use(self) -> bool:
        """Whether the sums are a range of use, and no bill of a fleet."""
        return any(one.paid_by_use for one in self.variants)

    def usd_per_hour(self, which: Which) -> float | None:
        """None where no price is known at all; otherwise unknown prices count nothing."""
        known = [one.usd_per_hour(which) for one in self.variants]
        counted = [one for one in known if one is not None]
        return sum(counted) if counted else None

    def usd_per_month(self, which: Which) -> float | None:
        """Of 730 hours."""
        hour = self.usd_per_hour(which)
        return None if hour is None else hour * HOURS_PER_MONTH

    def usd_per_million_predictions(self, which: Which) -> float | None:
        """Every instance as busy as was measured; in an update, both fleets for one's traffic."""
        rates = [one.rps(which) for one in self.variants]
        hour = self.usd_per_hour(which)
        if hour is None or self.unknown or None in rates:
            return None
        rps = sum(one for one in rates if one is not None)
        return hour / (rps * SECONDS_PER_HOUR) * MILLION if rps else None

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        for said, one in zip(found["variants"], self.variants, strict=True):
            said["paid_by_use"] = one.paid_by_use
            said["serverless"] = one.serverless.model_dump() if one.serverless else None
            said["usd_per_million_predictions"] = one.usd_per_million_predictions
            said["usd_per_million_predictions_of_100_ms"] = one.usd_per_million_of_example
        return found | {
            "usd_per_hour": {which: self.usd_per_hour(which) for which in WHICH},
            "usd_per_month": {which: self.usd_per_month(which) for which in WHICH},
            "usd_per_million_predictions": {
                which: self.usd_per_million_predictions(which) for which in WHICH
            },
            "hours_per_month": HOURS_PER_MONTH,
            "unknown_prices": self.unknown,
            "not_included": NOT_INCLUDED,
        }


def cost(name: str, environment: Environment) -> Cost:
    """Of the file alone; asks nobody."""
    rolling = None
    if environment.rollout is not None and environment.rollout.strategy == "rolling":
        rolling = environment.rollout.batch_percent
    return Cost(
        environment=name,
        variants=tuple(
            variant_cost(one, variant, environment.region, rolling_percent=rolling)
            for one, variant in environment.variants.items()
        ),
        p99_latency_ms=environment.alarms.p99_latency_ms,
    )
