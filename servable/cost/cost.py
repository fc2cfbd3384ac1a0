"""Compute the cost of an environment and of a change.

Instances are priced by the hour, serverless by use.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from infra.catalog.prices import DataPrice, Price, ServerlessPrice
from infra.parameters.environment import STATED, Environment
from infra.parameters.variant import Serverless
from infra.policy.sizing import HOURS_PER_MONTH, MIB_PER_GIB, count_update_instances
from servable.cost.day import SleepCost, compute_sleep_cost
from servable.cost.standing import StandingItem, build_volume_item, list_standing_items

SECONDS_PER_HOUR = 3600
MINUTES_PER_HOUR = 60
MILLION = 1_000_000
BYTES_PER_GB = 10**9
# The file doesn't state how long a prediction takes: costs are given for this duration.
EXAMPLE_SECONDS = 0.1
UNKNOWN = "no price is known"
SERVERLESS = "serverless"
MISSING = {SERVERLESS: "serverless_usd_per_gib_second"}

NOT_INCLUDED = (
    "not included: log ingestion ($0.50 to $0.70 per GB: $0.10 to $0.14 per million requests for "
    "each 200 bytes that a handler logs for one), samples and archives in S3 ($0.023 to $0.025 per GB and "
    "month), transfer to another region ($0.09 per GB), interface endpoints of [network], functions of "
    "golden requests, tax; AWS's free tier and discounts aren't deducted"
)
# https://aws.amazon.com/savingsplans/ml-pricing/, as https://www.factualminds.com/blog/
# aws-sagemaker-ai-savings-plans-commitment-flexibility.md quotes it (2026-06-13).
MOST_SAVED_SHARE = 0.64

Which = Literal["min_instances", "max_instances", "max_during_update"]
WHICH: Mapping[Which, str] = {
    "min_instances": "min",
    "max_instances": "max",
    "max_during_update": "max during an update",
}


@dataclass(frozen=True, kw_only=True)
class VariantCost:
    """The cost of one variant in US dollars; None where no price is known."""

    variant: str
    instance_type: str
    """Instance type, or "serverless". The types of instance_pools are joined by "or"."""
    shadow: bool
    """Whether it is a shadow variant, whose responses are discarded."""
    min_instances: int
    max_instances: int
    max_during_update: int
    """Instances at once while an update replaces a fleet of `max_instances`."""
    usd_per_instance_hour: float | None
    """Price of the most expensive type, for max and updates."""
    least_usd_per_instance_hour: float | None
    """Price of the cheapest type, for min."""
    without_price: tuple[str, ...]
    """The instance types without a known price."""
    price_of: str
    """Region and date of the price, or that none is known."""
    priced_on: str | None
    """Date of the price, as 2026-11 or 2026-11-24; None: not stated."""
    volume: StandingItem | None
    """The volume of each instance, by the GB; None: no volume, or no known price."""
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
    def unpriced_names(self) -> tuple[str, ...]:
        if self.serverless is None:
            return self.without_price
        return (SERVERLESS,) if self.usd_per_second is None else ()

    def compute_usd_per_hour(self, which: Which) -> float | None:
        """Return US dollars per hour, or None if a price is unknown.

        Serverless: at min only provisioned concurrency, at max every container all the time.
        """
        least, serverless = which == "min_instances", self.serverless
        if serverless is None:
            each = self.least_usd_per_instance_hour if least else self.usd_per_instance_hour
            return each and each * getattr(self, which)
        if self.usd_per_second is None:
            return None
        kept = (serverless.provisioned_concurrency or 0) if least else serverless.provisioned_limit
        # An update's second fleet doesn't respond to more requests.
        answering = 0 if least else serverless.max_concurrency
        second = answering * self.usd_per_second + kept * (self.usd_per_warm_second or 0.0)
        return second * SECONDS_PER_HOUR

    @property
    def usd_per_million_predictions(self) -> float | None:
        """Return US dollars per million predictions on a fully used instance, the lowest cost."""
        hour, rps = self.usd_per_instance_hour, self.max_rps_per_instance
        return None if hour is None or rps is None else hour / (rps * SECONDS_PER_HOUR) * MILLION

    @property
    def usd_per_million_of_example(self) -> float | None:
        """Return US dollars per million predictions of `EXAMPLE_SECONDS` each, without data."""
        return self.usd_per_second and self.usd_per_second * (EXAMPLE_SECONDS * MILLION)

    def compute_rps(self, which: Which) -> float | None:
        """Return the predictions per second of all instances; None without a measured rate."""
        # During an update the traffic is the same.
        count = self.min_instances if which == "min_instances" else self.max_instances
        rps = 0.0 if self.shadow else self.max_rps_per_instance
        return rps and rps * count


@dataclass(frozen=True, kw_only=True)
class DataCost:
    """The charge for the bytes of requests and responses, on instances and serverless."""

    usd_per_gb: float | None
    """Price of 10^9 bytes, in or out; None if no source states one."""
    price_of: str
    """Region and date of the price, or that none is known."""
    request_bytes: int | None
    """Size of the largest request, from the file."""
    answer_bytes: int | None

    @property
    def missing_keys(self) -> list[str]:
        sizes = {"request_bytes": self.request_bytes, "answer_bytes": self.answer_bytes}
        return [f"traffic.{key}" for key, size in sizes.items() if size is None]

    @property
    def usd_per_million_predictions(self) -> float | None:
        """Return US dollars per million predictions if every body is as large as the largest."""
        if self.usd_per_gb is None or self.request_bytes is None or self.answer_bytes is None:
            return None
        return (self.request_bytes + self.answer_bytes) * MILLION / BYTES_PER_GB * self.usd_per_gb


@dataclass(frozen=True, kw_only=True)
class BatchCost:
    """The cost of one batch's runs, each charged from the start of its instances to its end.

    Source:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTransformJob.html
    (TransformStartTime, 2026-11-28)
    """

    batch: str
    instance_type: str
    instances: int
    usd_per_instance_hour: float | None
    """The price of an endpoint's instance: the catalog has none for transform jobs."""
    price_of: str
    late_minutes: int
    max_minutes: int

    @property
    def usd_per_hour(self) -> float | None:
        """Return US dollars for an hour of a run on all of its instances."""
        return self.usd_per_instance_hour and self.usd_per_instance_hour * self.instances

    def compute_usd_per_run(self, minutes: int) -> float | None:
        return self.usd_per_hour and self.usd_per_hour * minutes / MINUTES_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of all variants and batches of one environment."""

    environment: str
    variants: tuple[VariantCost, ...]
    batches: tuple[BatchCost, ...]
    """Runs, which no sum includes: the file doesn't state how long they take."""
    data: DataCost
    standing: tuple[StandingItem, ...]
    """What costs when nothing runs; empty if no price is known."""
    p99_latency_ms: float | None
    """The objective that the file states."""

    @property
    def unpriced_names(self) -> list[str]:
        """Return the names of everything without a price; the sums leave them out."""
        names = {name for variant in self.variants for name in variant.unpriced_names}
        runs = (batch for batch in self.batches if batch.usd_per_instance_hour is None)
        return sorted(names | {batch.instance_type for batch in runs})

    @property
    def missing_keys(self) -> list[str]:
        """Return the keys of an environment file that would state the unknown prices."""
        return [
            f"prices.{MISSING.get(name) or f'instance_usd_per_hour.{json.dumps(name)}'}"
            for name in self.unpriced_names
        ]

    @property
    def is_paid_by_use(self) -> bool:
        """Return whether a variant is paid by use, so that the sums are a range."""
        return any(variant.serverless for variant in self.variants)

    def compute_usd_per_hour(self, which: Which) -> float | None:
        """Return US dollars per hour of all variants with a known price; None without any price."""
        hours = [variant.compute_usd_per_hour(which) for variant in self.variants]
        known = [hour for hour in hours if hour is not None]
        return sum(known) if known else None

    def compute_usd_per_month(self, which: Which) -> float | None:
        """Return US dollars per month of 730 hours, or None if no price is known."""
        hour = self.compute_usd_per_hour(which)
        return hour and hour * HOURS_PER_MONTH

    @property
    def standing_usd_per_month(self) -> float | None:
        return sum(item.usd_per_month for item in self.standing) if self.standing else None

    def compute_total_usd_per_month(self, which: Which) -> float | None:
        """Return US dollars per month with volumes and with the cost of idle resources."""
        if (month := self.compute_usd_per_month(which)) is None:
            return None
        volumes: float = sum(
            getattr(variant, which) * variant.volume.usd_per_month
            for variant in self.variants
            if variant.volume
        )
        return month + volumes + (self.standing_usd_per_month or 0.0)

    def compute_usd_per_million(self, which: Which) -> float | None:
        """Return US dollars per million predictions if every instance is as busy as measured.

        During an update, both fleets are paid for the traffic of one.
        """
        rates = [variant.compute_rps(which) for variant in self.variants]
        hour = self.compute_usd_per_hour(which)
        if hour is None or self.unpriced_names or None in rates:
            return None
        rps = sum(rate for rate in rates if rate is not None)
        return hour / (rps * SECONDS_PER_HOUR) * MILLION if rps else None

    def as_json(self) -> dict[str, Any]:
        output = asdict(self)
        for row, variant in zip(output["variants"], self.variants, strict=True):
            row["paid_by_use"] = variant.serverless is not None
            row["serverless"] = variant.serverless.model_dump() if variant.serverless else None
            row["usd_per_million_predictions"] = variant.usd_per_million_predictions
            row["usd_per_million_predictions_of_100_ms"] = variant.usd_per_million_of_example
        for row, batch in zip(output["batches"], self.batches, strict=True):
            row["usd_per_hour"] = batch.usd_per_hour
            row["usd_per_late_run"] = batch.compute_usd_per_run(batch.late_minutes)
            row["usd_per_longest_run"] = batch.compute_usd_per_run(batch.max_minutes)
        output["data"] |= {
            "missing_keys": self.data.missing_keys,
            "usd_per_million_predictions": self.data.usd_per_million_predictions,
        }
        usd_per_month = self.standing_usd_per_month
        output["standing"] = {"items": output["standing"], "usd_per_month": usd_per_month}
        sums = {
            "usd_per_month_in_all": self.compute_total_usd_per_month,
            "usd_per_hour": self.compute_usd_per_hour,
            "usd_per_month": self.compute_usd_per_month,
            "usd_per_million_predictions": self.compute_usd_per_million,
        }
        for key, compute in sums.items():
            output[key] = {which: compute(which) for which in WHICH}
        return output | {
            "most_saved_share": MOST_SAVED_SHARE,
            "hours_per_month": HOURS_PER_MONTH,
            "unknown_prices": self.unpriced_names,
            "missing_keys": self.missing_keys,
            "not_included": NOT_INCLUDED,
        }


def compute_cost(name: str, environment: Environment) -> Cost:
    """Return the cost of an environment, computed from its file and the price catalog alone."""
    region, traffic = environment.region, environment.traffic
    # The usage type belongs to the operation Invoke-Endpoint; asynchronous requests are in S3.
    price = None if environment.kind.queued else environment.prices.find_data_price(region)
    return Cost(
        environment=name,
        data=DataCost(
            usd_per_gb=price.usd_per_gb if price else None,
            price_of=_describe_price_source(price, region),
            request_bytes=traffic.request_bytes,
            answer_bytes=traffic.answer_bytes,
        ),
        variants=tuple(_compute_variant_cost(environment, each) for each in environment.variants),
        batches=tuple(
            BatchCost(
                batch=batch_name,
                instance_type=batch.instance_type,
                instances=batch.instances,
                usd_per_instance_hour=row.usd_per_hour if row else None,
                price_of=_describe_price_source(row, region),
                late_minutes=batch.late_minutes,
                max_minutes=batch.max_minutes,
            )
            for batch_name, batch in environment.batch.items()
            for row in [environment.prices.find_instance_price(batch.instance_type, region)]
        ),
        standing=list_standing_items(environment),
        p99_latency_ms=environment.alarms.p99_latency_ms,
    )


def _compute_variant_cost(environment: Environment, name: str) -> VariantCost:
    variant, region, prices = environment.variants[name], environment.region, environment.prices
    batches = environment.rollout.batches if environment.rollout else None
    serverless, scaling = variant.serverless, variant.scaling
    used = prices.find_serverless_price(region) if serverless else None
    rows = {kind: prices.find_instance_price(kind, region) for kind in variant.instance_types}
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
        max_during_update=count_update_instances(most, batches=batches),
        usd_per_instance_hour=None if dearest is None else dearest.usd_per_hour,
        least_usd_per_instance_hour=min((row.usd_per_hour for row in known), default=None),
        without_price=missing,
        price_of=_describe_price_source(used or dearest, region),
        priced_on=price.as_of if (price := used or dearest) else None,
        volume=build_volume_item(variant, region),
        max_rps_per_instance=scaling.max_rps_per_instance if scaling else None,
        safety_factor=scaling.safety_factor if scaling else None,
        serverless=serverless,
        usd_per_second=used.usd_per_gib_second * gib if used else None,
        usd_per_warm_second=used.usd_per_warm_gib_second * gib if used else None,
        sleep_after_minutes=variant.sleep_after_minutes,
        sleep=compute_sleep_cost(environment, name),
    )


def _describe_price_source(row: Price | ServerlessPrice | DataPrice | None, region: str) -> str:
    if row is None:
        return UNKNOWN
    other = "" if row.region == region else f", not of {region}"
    own = ", [prices] of the file" if row.source == STATED else ""
    return f"{row.region}{other}, {row.as_of}{own}"


def describe_difference(now: Cost, then: Cost) -> str:
    """Describe the cost difference between `then` and `now` in one line.

    For example "+$412/month at min, +$824/month at max, p99 objective 120 -> 80 ms".
    """
    parts = []
    for which, word in WHICH.items():
        months = (cost.compute_total_usd_per_month(which) for cost in (now, then))
        parts.append(f"{_format_change(*months)}/month at {word}")
    runs, were = ({run.batch: run.usd_per_hour for run in cost.batches} for cost in (now, then))
    for name in sorted({*runs, *were}):
        if (usd := runs.get(name, 0.0)) != (was := were.get(name, 0.0)):
            parts.append(f"{_format_change(usd, was)} per hour of batch {name}")
    before, after = (
        "none" if cost.p99_latency_ms is None else f"{cost.p99_latency_ms:g}"
        for cost in (then, now)
    )
    if before != after:
        parts.append(f"p99 objective {before} -> {after} ms")
    if now.is_paid_by_use or then.is_paid_by_use:
        parts.append("serverless is billed by use: nothing at min, all containers busy at max")
    if unknown := sorted({*now.unpriced_names, *then.unpriced_names}):
        parts.append(f"without {', '.join(unknown)}: {UNKNOWN}")
    return ", ".join(parts)


def _format_change(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return "unknown"
    whole = round(now - then)
    return f"{'-' if whole < 0 else '+'}${abs(whole):,}"
