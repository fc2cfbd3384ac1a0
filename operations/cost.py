"""What an environment's instances cost, and what a change to it costs."""

from dataclasses import asdict, dataclass
from typing import Any

from infra.catalog.prices import Price, price
from infra.parameters.environment import Environment
from infra.parameters.variant import Variant
from infra.policy.sizing import instances_during_update

# A year of 8,760 hours by 12, as AWS's own pricing pages count.
# https://aws.amazon.com/calculator/calculator-assumptions/
HOURS_PER_MONTH = 730
SECONDS_PER_HOUR = 3600
MILLION = 1_000_000

NOT_INCLUDED = (
    "not included: alarms, dashboard, logs, stored archives and samples, keys, data sent out"
)


@dataclass(frozen=True, kw_only=True)
class VariantCost:
    """One variant. In US dollars; None where no source states a price."""

    variant: str
    instance_type: str
    min_instances: int
    max_instances: int
    max_during_update: int
    """Instances at once while an update replaces a fleet of `max_instances`."""
    usd_per_instance_hour: float | None
    price_of: str
    """Where and when the price held, or that none is known."""
    max_rps_per_instance: float | None
    """Measured, of the file."""

    def usd_per_hour(self, instances: int) -> float | None:
        """At that many instances."""
        price = self.usd_per_instance_hour
        return None if price is None else instances * price

    @property
    def usd_per_million(self) -> float | None:
        """Predictions, by an instance that is as busy as was measured: the least they can cost."""
        if self.usd_per_instance_hour is None or self.max_rps_per_instance is None:
            return None
        per_hour = self.max_rps_per_instance * SECONDS_PER_HOUR
        return self.usd_per_instance_hour / per_hour * MILLION


@dataclass(frozen=True, kw_only=True)
class Cost:
    """All variants of one environment together."""

    environment: str
    variants: tuple[VariantCost, ...]
    p99_latency_ms: float | None
    """The objective that the file states."""

    @property
    def unknown(self) -> list[str]:
        """Instance types without a price; the sums are then of the others."""
        return sorted(
            {one.instance_type for one in self.variants if one.usd_per_instance_hour is None}
        )

    def usd_per_hour(self, which: str) -> float:
        """`which`: min_instances, max_instances or max_during_update. Unknown prices count nothing."""
        return sum(one.usd_per_hour(getattr(one, which)) or 0.0 for one in self.variants)

    def usd_per_month(self, which: str) -> float:
        """Of 730 hours."""
        return self.usd_per_hour(which) * HOURS_PER_MONTH

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        for said, one in zip(found["variants"], self.variants, strict=True):
            said["usd_per_million_predictions"] = one.usd_per_million
        return found | {
            "usd_per_hour": {which: self.usd_per_hour(which) for which in WHICH},
            "usd_per_month": {which: self.usd_per_month(which) for which in WHICH},
            "hours_per_month": HOURS_PER_MONTH,
            "unknown_prices": self.unknown,
            "not_included": NOT_INCLUDED,
        }


WHICH = ("min_instances", "max_instances", "max_during_update")


def cost(name: str, environment: Environment) -> Cost:
    """Of the file alone; asks nobody."""
    rolling = None
    if environment.rollout is not None and environment.rollout.strategy == "rolling":
        rolling = environment.rollout.batch_percent
    return Cost(
        environment=name,
        variants=tuple(
            _variant(one, variant, environment.region, rolling)
            for one, variant in environment.variants.items()
        ),
        p99_latency_ms=environment.alarms.p99_latency_ms,
    )


def _variant(name: str, variant: Variant, region: str, rolling: int | None) -> VariantCost:
    # No source here states a price of serverless: it is unknown, and said so.
    kind = variant.instance_type or "serverless"
    row = price(kind, region)
    most = variant.most_instances
    return VariantCost(
        variant=name,
        instance_type=kind,
        min_instances=variant.min_instances,
        max_instances=most,
        max_during_update=instances_during_update(most, rolling_percent=rolling),
        usd_per_instance_hour=None if row is None else row.usd_per_hour,
        price_of=_said(row, region),
        max_rps_per_instance=variant.scaling.max_rps_per_instance if variant.scaling else None,
    )


def _serverless(name: str) -> VariantCost:
    """Paid for by the request and the second; no source in the catalog states it."""
    return VariantCost(
        variant=name,
        instance_type="serverless",
        min_instances=0,
        max_instances=0,
        max_during_update=0,
        usd_per_instance_hour=None,
        price_of="no source states a price",
        max_rps_per_instance=None,
    )


def _said(row: Price | None, region: str) -> str:
    if row is None:
        return "no source states a price"
    other = "" if row.region == region else f", not of {region}"
    return f"{row.region}{other}, {row.as_of}"


def difference(now: Cost, then: Cost) -> str:
    """One line: "+$412/month at min, +$824/month at max, p99 objective 120 -> 80 ms"."""
    said = [
        f"{_signed(now.usd_per_month(which) - then.usd_per_month(which))}/month at {word}"
        for which, word in (("min_instances", "min"), ("max_instances", "max"))
    ]
    if now.p99_latency_ms != then.p99_latency_ms:
        before, after = (_ms(one.p99_latency_ms) for one in (then, now))
        said.append(f"p99 objective {before} -> {after} ms")
    unknown = sorted({*now.unknown, *then.unknown})
    if unknown:
        said.append(f"without {', '.join(unknown)}: no source states a price")
    return ", ".join(said)


def _signed(usd: float) -> str:
    whole = round(usd)
    return f"{'-' if whole < 0 else '+'}${abs(whole):,}"


def _ms(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
