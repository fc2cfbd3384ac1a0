"""Cost of an environment, by instance and hour or, serverless, by use; and the cost of a change."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from infra.catalog.prices import DataPrice, Price, ServerlessPrice
from infra.parameters.environment import STATED, Environment, Prices
from infra.parameters.variant import Serverless, Variant
from infra.policy.sizing import HOURS_PER_MONTH, MIB_PER_GIB, instances_during_update
from servable.cost.day import SleepCost, cost_of_sleep
from servable.cost.standing import StandingCost, StandingItem, standing, volume

SECONDS_PER_HOUR = 3600
MINUTES_PER_HOUR = 60
MILLION = 1_000_000
BYTES_PER_GB = 10**9
# How long a prediction takes is not in the file: what it costs is said for this long.
EXAMPLE_SECONDS = 0.1
UNKNOWN = "no source states a price"
SERVERLESS = "serverless"
MISSING = {SERVERLESS: "serverless_usd_per_gib_second"}

NOT_INCLUDED = (
    "not included: what is written to logs ($0.50 to $0.70 per GB: $0.10 to $0.14 per million requests for "
    "each 200 bytes that a handler writes of one), samples and archives in S3 ($0.023 to $0.025 per GB and "
    "month), transfer to another region ($0.09 per GB), interface endpoints of [network], functions of "
    "golden requests, tax; AWS's free allowances and discounts are not taken off"
)
# https://aws.amazon.com/savingsplans/ml-pricing/, as https://www.factualminds.com/blog/
# aws-sagemaker-ai-savings-plans-commitment-flexibility.md quotes it (2026-06-13).
MOST_SAVED_SHARE = 0.64

Which = Literal["min_instances", "max_instances", "max_during_update"]
WHICH: tuple[Which, ...] = ("min_instances", "max_instances", "max_during_update")


@dataclass(frozen=True, kw_only=True)
class VariantCost:
    """The cost of one variant in US dollars; None where no source states a price."""

    variant: str
    instance_type: str
    """Instance type, or "serverless". The types of instance_pools are joined by "or"."""
    shadow: bool
    """A shadow variant, whose answers are discarded."""
    min_instances: int
    max_instances: int
    max_during_update: int
    """Instances at once while an update replaces a fleet of `max_instances`."""
    usd_per_instance_hour: float | None
    """Price of the dearest type: what is paid at max and during an update."""
    least_usd_per_instance_hour: float | None
    """Price of the cheapest type: what is paid at min. Without instance_pools the same."""
    without_price: tuple[str, ...]
    """The instance types of which no price is known."""
    price_of: str
    """Where and when the price held, or that none is known."""
    priced_on: str | None
    """Date of the price, as 2026-11 or 2026-11-24; None: not stated."""
    volume: StandingItem | None
    """The volume of each instance, by the GB; None: there is none, or no price of it."""
    max_rps_per_instance: float | None
    """Measured requests per second of one instance, from the file."""
    safety_factor: float | None
    """Share of it at which scaling keeps an instance."""
    serverless: Serverless | None = None
    usd_per_second: float | None = None
    """Serverless: of one container that answers."""
    usd_per_warm_second: float | None = None
    """Serverless: of one container that provisioned concurrency keeps warm."""
    sleep_after_minutes: int | None = None
    sleep: SleepCost | None = None
    """None for a variant that does not sleep, and where no day is stated."""

    @property
    def paid_by_use(self) -> bool:
        return self.serverless is not None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that have no known price."""
        if self.serverless is None:
            return self.without_price
        return (SERVERLESS,) if self.usd_per_second is None else ()

    def usd_per_hour(self, which: Which) -> float | None:
        """Serverless: what is kept warm while nobody asks, and at max every container all the time."""
        if self.unknown:
            return None
        least = which == "min_instances"
        if self.serverless is None:
            count: int = getattr(self, which)
            each = self.least_usd_per_instance_hour if least else self.usd_per_instance_hour
            assert each is not None  # it would be unknown
            return count * each
        warm = self.serverless.provisioned_concurrency or 0
        kept = warm if least else self.serverless.most_provisioned
        # An update's second fleet answers no request twice.
        answering = 0 if least else self.serverless.max_concurrency
        assert self.usd_per_second is not None  # as above
        second = answering * self.usd_per_second + kept * (self.usd_per_warm_second or 0.0)
        return second * SECONDS_PER_HOUR

    def usd_per_month_of_volumes(self, which: Which) -> float:
        count: int = getattr(self, which)
        return count * self.volume.usd_per_month if self.volume else 0.0

    @property
    def usd_per_million_predictions(self) -> float | None:
        """US dollars per million predictions on a fully used instance: the lowest possible cost."""
        if self.usd_per_instance_hour is None or self.max_rps_per_instance is None:
            return None
        per_hour = self.max_rps_per_instance * SECONDS_PER_HOUR
        return self.usd_per_instance_hour / per_hour * MILLION

    @property
    def usd_per_million_of_example(self) -> float | None:
        """Serverless: predictions that take `EXAMPLE_SECONDS` each, without their bytes."""
        usd = self.usd_per_second
        return None if usd is None else usd * (EXAMPLE_SECONDS * MILLION)

    def rps(self, which: Which) -> float | None:
        """Predictions per second of all its instances, as busy as was measured."""
        if self.shadow:
            return 0.0
        if self.max_rps_per_instance is None:
            return None
        # The second fleet of an update answers nothing more: the traffic is the same.
        count = self.min_instances if which == "min_instances" else self.max_instances
        return count * self.max_rps_per_instance


@dataclass(frozen=True, kw_only=True)
class DataCost:
    """SageMaker's charge for the bytes of requests and answers, on instances and serverless."""

    usd_per_gb: float | None
    """Price of 10^9 bytes, in or out; None where no source states one."""
    price_of: str
    """Where and when the price held, or that none is known."""
    request_bytes: int | None
    """Size of the largest request, from the file."""
    answer_bytes: int | None

    @property
    def missing_keys(self) -> list[str]:
        sizes = {"request_bytes": self.request_bytes, "answer_bytes": self.answer_bytes}
        return [f"traffic.{key}" for key, size in sizes.items() if size is None]

    @property
    def usd_per_million_predictions(self) -> float | None:
        """US dollars where every body is as large as the largest; None: a part is unknown."""
        if self.usd_per_gb is None or self.request_bytes is None or self.answer_bytes is None:
            return None
        return (self.request_bytes + self.answer_bytes) * MILLION / BYTES_PER_GB * self.usd_per_gb


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The cost of the runs of one batch, which is paid from the start of its instances to its end.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTransformJob.html
    (TransformStartTime, 2026-11-28)
    """

    batch: str
    instance_type: str
    instances: int
    usd_per_instance_hour: float | None
    """The price of an endpoint's instance: that of a transform job's is not in the catalog."""
    price_of: str
    late_minutes: int
    max_minutes: int

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars of an hour of a run, on all of its instances."""
        each = self.usd_per_instance_hour
        return None if each is None else each * self.instances

    def usd_per_run(self, minutes: int) -> float | None:
        hour = self.usd_per_hour
        return None if hour is None else hour * minutes / MINUTES_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class Cost:
    """All variants of one environment together."""

    environment: str
    variants: tuple[VariantCost, ...]
    batches: tuple[BatchCost, ...]
    """Runs, which no sum here counts: how long they take is not in the file."""
    data: DataCost
    standing: StandingCost
    p99_latency_ms: float | None
    """The objective that the file states."""

    @property
    def unknown(self) -> list[str]:
        """Names of everything without a price; the sums leave them out."""
        names = {name for variant in self.variants for name in variant.unknown}
        runs = (batch for batch in self.batches if batch.usd_per_instance_hour is None)
        return sorted(names | {batch.instance_type for batch in runs})

    @property
    def missing_keys(self) -> list[str]:
        """The rows of an environment file that would state the unknown prices, without the amounts."""
        return [
            f"prices.{MISSING.get(name) or f'instance_usd_per_hour.{json.dumps(name)}'}"
            for name in self.unknown
        ]

    @property
    def paid_by_use(self) -> bool:
        """Whether the sums are a range of use, and no bill of a fleet."""
        return any(variant.paid_by_use for variant in self.variants)

    def usd_per_hour(self, which: Which) -> float | None:
        """None where no price is known at all; otherwise unknown prices count nothing."""
        known = [variant.usd_per_hour(which) for variant in self.variants]
        counted = [hour for hour in known if hour is not None]
        return sum(counted) if counted else None

    def usd_per_month(self, which: Which) -> float | None:
        """US dollars per month of 730 hours; None if no price is known."""
        hour = self.usd_per_hour(which)
        return None if hour is None else hour * HOURS_PER_MONTH

    def usd_per_month_in_all(self, which: Which) -> float | None:
        """With volumes and what stays when nothing runs; None if no price of instances is known."""
        month = self.usd_per_month(which)
        if month is None:
            return None
        volumes = sum(variant.usd_per_month_of_volumes(which) for variant in self.variants)
        return month + volumes + (self.standing.usd_per_month or 0.0)

    def usd_per_million_predictions(self, which: Which) -> float | None:
        """Every instance as busy as was measured; in an update, both fleets for one's traffic."""
        rates = [variant.rps(which) for variant in self.variants]
        hour = self.usd_per_hour(which)
        if hour is None or self.unknown or None in rates:
            return None
        rps = sum(variant for variant in rates if variant is not None)
        return hour / (rps * SECONDS_PER_HOUR) * MILLION if rps else None

    def as_json(self) -> dict[str, Any]:
        output = asdict(self)
        for row, variant in zip(output["variants"], self.variants, strict=True):
            row["paid_by_use"] = variant.paid_by_use
            row["serverless"] = variant.serverless.model_dump() if variant.serverless else None
            row["usd_per_million_predictions"] = variant.usd_per_million_predictions
            row["usd_per_million_predictions_of_100_ms"] = variant.usd_per_million_of_example
        for row, batch in zip(output["batches"], self.batches, strict=True):
            row["usd_per_hour"] = batch.usd_per_hour
            row["usd_per_late_run"] = batch.usd_per_run(batch.late_minutes)
            row["usd_per_longest_run"] = batch.usd_per_run(batch.max_minutes)
        output["data"] |= {
            "missing_keys": self.data.missing_keys,
            "usd_per_million_predictions": self.data.usd_per_million_predictions,
        }
        output["standing"]["usd_per_month"] = self.standing.usd_per_month
        return output | {
            "usd_per_month_in_all": {which: self.usd_per_month_in_all(which) for which in WHICH},
            "most_saved_share": MOST_SAVED_SHARE,
            "usd_per_hour": {which: self.usd_per_hour(which) for which in WHICH},
            "usd_per_month": {which: self.usd_per_month(which) for which in WHICH},
            "usd_per_million_predictions": {
                which: self.usd_per_million_predictions(which) for which in WHICH
            },
            "hours_per_month": HOURS_PER_MONTH,
            "unknown_prices": self.unknown,
            "missing_keys": self.missing_keys,
            "not_included": NOT_INCLUDED,
        }


def cost(name: str, environment: Environment) -> Cost:
    """Return the cost of an environment, from its file and the price catalog alone."""
    batches = environment.rollout.batches if environment.rollout else None
    region, traffic = environment.region, environment.traffic
    # The usage type is of the operation Invoke-Endpoint; asynchronous requests lie in S3.
    price = None if environment.kind.queued else environment.prices.data(region)
    return Cost(
        environment=name,
        data=DataCost(
            usd_per_gb=price.usd_per_gb if price else None,
            price_of=_said(price, region),
            request_bytes=traffic.request_bytes,
            answer_bytes=traffic.answer_bytes,
        ),
        variants=tuple(
            replace(
                variant_cost(
                    variant_name, variant, region, batches=batches, prices=environment.prices
                ),
                sleep=cost_of_sleep(environment, variant_name),
            )
            for variant_name, variant in environment.variants.items()
        ),
        batches=tuple(
            BatchCost(
                batch=batch_name,
                instance_type=batch.instance_type,
                instances=batch.instances,
                usd_per_instance_hour=row.usd_per_hour if row else None,
                price_of=_said(row, region),
                late_minutes=batch.late_minutes,
                max_minutes=batch.max_minutes,
            )
            for batch_name, batch in environment.batch.items()
            for row in [environment.prices.instance(batch.instance_type, region)]
        ),
        standing=standing(environment),
        p99_latency_ms=environment.alarms.p99_latency_ms,
    )


def variant_cost(
    name: str,
    variant: Variant,
    region: str,
    *,
    batches: tuple[int, int] | None,
    prices: Prices,
) -> VariantCost:
    """Return the cost of a variant, from its file's prices and the price catalog alone."""
    serverless, scaling = variant.serverless, variant.scaling
    used = prices.serverless(region) if serverless else None
    rows = {kind: prices.instance(kind, region) for kind in variant.instance_types}
    missing = tuple(kind for kind, row in rows.items() if row is None)
    known = [row for row in rows.values() if row is not None and not missing]
    dearest = max(known, key=lambda row: row.usd_per_hour, default=None)
    gib = serverless.memory_mib / MIB_PER_GIB if serverless else 0.0
    least, most = (0, 0) if serverless else variant.planned_capacity
    return VariantCost(
        variant=name,
        instance_type=" or ".join(variant.instance_types) or SERVERLESS,
        shadow=variant.shadow,
        min_instances=least,
        max_instances=most,
        max_during_update=instances_during_update(most, batches=batches),
        usd_per_instance_hour=None if dearest is None else dearest.usd_per_hour,
        least_usd_per_instance_hour=min((row.usd_per_hour for row in known), default=None),
        without_price=missing,
        price_of=_said(used or dearest, region),
        priced_on=price.as_of if (price := used or dearest) else None,
        volume=volume(variant, region),
        max_rps_per_instance=scaling.max_rps_per_instance if scaling else None,
        safety_factor=scaling.safety_factor if scaling else None,
        serverless=serverless,
        usd_per_second=used.usd_per_gib_second * gib if used else None,
        usd_per_warm_second=used.usd_per_warm_gib_second * gib if used else None,
        sleep_after_minutes=variant.sleep_after_minutes,
    )


def _said(row: Price | ServerlessPrice | DataPrice | None, region: str) -> str:
    if row is None:
        return UNKNOWN
    other = "" if row.region == region else f", not of {region}"
    own = ", [prices] of the file" if row.source == STATED else ""
    return f"{row.region}{other}, {row.as_of}{own}"


_WORDS: tuple[tuple[Which, str], ...] = (
    ("min_instances", "min"),
    ("max_instances", "max"),
    ("max_during_update", "max while it updates"),
)


def difference(now: Cost, then: Cost) -> str:
    """ "+$412/month at min, +$824/month at max, p99 objective 120 -> 80 ms" """
    parts = [
        f"{_signed(now.usd_per_month(which), then.usd_per_month(which))}/month at {word}"
        for which, word in _WORDS
    ]
    if now.p99_latency_ms != then.p99_latency_ms:
        before, after = (
            "none" if cost.p99_latency_ms is None else f"{cost.p99_latency_ms:g}"
            for cost in (then, now)
        )
        parts.append(f"p99 objective {before} -> {after} ms")
    if now.paid_by_use or then.paid_by_use:
        parts.append("serverless is paid by use: nothing at min, every container busy at max")
    unknown = sorted({*now.unknown, *then.unknown})
    if unknown:
        parts.append(f"without {', '.join(unknown)}: {UNKNOWN}")
    return ", ".join(parts)


def _signed(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return "unknown"
    whole = round(now - then)
    return f"{'-' if whole < 0 else '+'}${abs(whole):,}"
