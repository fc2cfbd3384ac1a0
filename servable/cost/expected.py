"""The expected month: the cost of an environment with the requests that [traffic] states."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from infra.parameters.endpoint import Asynchronous, Traffic
from infra.parameters.environment import Environment
from infra.parameters.placement import find_placement
from infra.parameters.variant import Serverless, Variant
from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.cost import (
    BYTES_PER_GB,
    EXAMPLE_SECONDS,
    MILLION,
    UNKNOWN,
    Cost,
    DataCost,
    VariantCost,
)
from servable.cost.day import HOURS_PER_DAY, rehearse_day

DAYS_PER_MONTH = HOURS_PER_MONTH / HOURS_PER_DAY
DEFAULT_PROFILE = "daily"
# S3 Standard, the dearer of the two prices in servable/cost/cost.py.
S3_USD_PER_GB = 0.025


Estimate = tuple[float | None, str]
"""(amount, the assumption behind it). The amount is None if it can't be computed, for that reason."""
Line = tuple[str, float | None, str]


@dataclass(frozen=True)
class ExpectedLine:
    """One part of the month. `usd`: None if it can't be computed; `assumption` is then the reason."""

    name: str
    usd: float | None
    assumption: str


@dataclass(frozen=True, kw_only=True)
class ExpectedMonth:
    """The cost of a month whose days are as [traffic] states."""

    requests: float
    day: str
    """The day in words."""
    lines: tuple[ExpectedLine, ...]

    @property
    def usd(self) -> float:
        """Return the sum of the lines that have an amount."""
        return sum(line.usd for line in self.lines if line.usd is not None)

    @property
    def missing_names(self) -> list[str]:
        """Return the names of the lines without an amount."""
        return [line.name for line in self.lines if line.usd is None]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"usd_per_month": self.usd, "missing": self.missing_names}


def compute_expected_month(environment: Environment, costs: Cost) -> ExpectedMonth | None:
    """Return the expected month, or None without variants or without a stated number of requests.

    Raises TrafficError if the day can't be read.
    """
    traffic = environment.traffic
    if not environment.variants or (traffic.peak_rps is None and traffic.day is None):
        return None
    day = "days as in traffic.day"
    if traffic.day is None:
        profile = traffic.profile or DEFAULT_PROFILE
        day = f"days with the profile {profile}, up to {traffic.peak_rps:g} requests/s"
        day += "" if traffic.profile else "; traffic.profile isn't set"
        traffic = traffic.model_copy(update={"profile": profile})
        environment = environment.model_copy(update={"traffic": traffic})
    from infra.parameters.rehearsal_scenario import read_stated_day  # it takes time to import

    requests = read_stated_day(traffic)
    assert requests is not None  # there is a profile and a peak, or a day
    lines = tuple(ExpectedLine(*line) for line in _list_lines(environment, costs, requests))
    return ExpectedMonth(requests=sum(requests) * DAYS_PER_MONTH, day=day, lines=lines)


def _list_lines(environment: Environment, costs: Cost, requests: list[float]) -> Iterator[Line]:
    month = sum(requests) * DAYS_PER_MONTH
    for each in costs.variants:
        if each.serverless is None:
            yield from _list_instance_lines(environment, each, requests)
        else:
            share = environment.compute_share(each.variant)
            own = month * (1.0 if share is None else share)
            yield (f"serverless, {each.variant}", *_estimate_serverless(each, each.serverless, own))
    if environment.asynchronous is None:
        yield ("data in and out", *_estimate_data(costs.data, month))
    else:
        queue = _estimate_queue(environment.traffic, environment.asynchronous, sum(requests))
        yield ("requests and responses in S3", *queue)
    standing = costs.standing_usd_per_month
    stays = UNKNOWN if standing is None else "keys, dashboard, alarms, and metrics"
    yield ("cost when nothing runs", standing, stays)


def _list_instance_lines(
    environment: Environment, costs: VariantCost, requests: list[float]
) -> Iterator[Line]:
    variant = environment.variants[costs.variant]
    hours, assumption = _estimate_instance_hours(environment, costs.variant, variant, requests)
    price = environment.prices.find_instance_price(variant.instance_types[0], environment.region)
    usd = None if hours is None or price is None else hours * DAYS_PER_MONTH * price.usd_per_hour
    if len(variant.instance_types) > 1:
        assumption += f"; all are {variant.instance_types[0]}"
    yield (f"instances, {costs.variant}", usd, assumption if price else UNKNOWN)
    if costs.volume is not None and hours is not None:
        usd = hours / HOURS_PER_DAY * costs.volume.usd_per_month
        yield (f"volumes, {costs.variant}", usd, f"{costs.volume.count:g} GB of each instance")


def _estimate_instance_hours(
    environment: Environment, name: str, variant: Variant, requests: list[float]
) -> Estimate:
    """Return the instance hours of a day."""
    if variant.components:
        why = "unknown, because components share instances and each one's requests aren't stated"
        return None, why
    scaling, placed = variant.scaling, find_placement(environment, name)
    if not variant.is_scaled:
        count = max(1, variant.min_instances)
        return float(HOURS_PER_DAY * count), f"{count:g} always running"
    if scaling is not None and scaling.max_rps_per_instance is None and not scaling.steps:
        return None, "unknown, because scaling follows concurrency or the queue, not requests"
    if placed is None:
        return None, "unknown, because the instance type or model is unknown"
    hours = rehearse_day(environment, placed, requests).instance_hours
    return hours, f"{hours / HOURS_PER_DAY:.2f} on average, according to a scaling rehearsal"


def _estimate_serverless(costs: VariantCost, settings: Serverless, requests: float) -> Estimate:
    if costs.usd_per_second is None:
        return None, UNKNOWN
    warm = settings.provisioned_concurrency or 0
    kept = warm * (costs.usd_per_warm_second or 0.0) * HOURS_PER_MONTH * 3600
    assumption = f"{EXAMPLE_SECONDS * 1000:g} ms for each request"
    assumption += f", and {warm} containers kept warm" if warm else ""
    return requests * EXAMPLE_SECONDS * costs.usd_per_second + kept, assumption


def _estimate_data(data: DataCost, requests: float) -> Estimate:
    if data.usd_per_million_predictions is None:
        return None, f"set {' and '.join(data.missing_keys)}" if data.missing_keys else UNKNOWN
    sizes = f"{data.request_bytes:,} bytes and each response {data.answer_bytes:,}"
    assumption = f"each request has {sizes}, the maximum in [traffic]"
    return data.usd_per_million_predictions * requests / MILLION, assumption


def _estimate_queue(traffic: Traffic, queue: Asynchronous, daily_requests: float) -> Estimate:
    """Return the cost of the requests and responses that an asynchronous endpoint keeps in S3."""
    if traffic.request_bytes is None or traffic.answer_bytes is None:
        return None, "set traffic.request_bytes and traffic.answer_bytes"
    each = traffic.request_bytes + traffic.answer_bytes
    stored_gb = daily_requests * queue.keep_days * each / BYTES_PER_GB
    assumption = (
        f"{stored_gb:,.1f} GB: asynchronous.keep_days = {queue.keep_days} keeps each request and response, "
        f"the maximum in [traffic], at ${S3_USD_PER_GB:g} per GB; S3's requests aren't included"
    )
    return stored_gb * S3_USD_PER_GB, assumption
