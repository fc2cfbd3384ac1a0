"""The expected month: the cost of an environment with the requests that [traffic] states."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.placement import find_placement
from infra.parameters.variant import Variant
from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.cost import BYTES_PER_GB, EXAMPLE_SECONDS, MILLION, UNKNOWN, Cost, VariantCost
from servable.cost.day import HOURS_PER_DAY, rehearse_day

DAYS_PER_MONTH = HOURS_PER_MONTH / HOURS_PER_DAY
DEFAULT_PROFILE = "daily"
# S3 Standard, the dearer of the two prices in servable/cost/cost.py.
S3_USD_PER_GB = 0.025


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
    if traffic.day is None and traffic.profile is None:
        day += "; traffic.profile isn't set"
        daily = traffic.model_copy(update={"profile": DEFAULT_PROFILE})
        environment = environment.model_copy(update={"traffic": daily})
    from infra.parameters.rehearsal_scenario import read_stated_day  # it takes time to import

    requests = read_stated_day(environment.traffic)
    assert requests is not None  # there is a profile and a peak, or a day
    month = sum(requests) * DAYS_PER_MONTH
    lines = [
        line
        for variant in costs.variants
        for line in _build_variant_lines(environment, variant, requests)
    ]
    if environment.kind.queued:
        lines.append(_build_queue_line(environment, month))
    else:
        lines.append(_build_data_line(costs, month))
    standing = costs.standing.usd_per_month
    stays = UNKNOWN if standing is None else "keys, dashboard, alarms, and metrics"
    lines.append(ExpectedLine("cost when nothing runs", standing, stays))
    return ExpectedMonth(requests=month, day=day, lines=tuple(lines))


def _build_variant_lines(
    environment: Environment, costs: VariantCost, requests: list[float]
) -> Iterator[ExpectedLine]:
    variant = environment.variants[costs.variant]
    if variant.serverless is not None:
        yield _build_serverless_line(environment, costs, sum(requests) * DAYS_PER_MONTH)
        return
    hours, assumption = _estimate_instance_hours(environment, costs.variant, variant, requests)
    price = environment.prices.find_instance_price(variant.instance_types[0], environment.region)
    usd = None if hours is None or price is None else hours * DAYS_PER_MONTH * price.usd_per_hour
    if len(variant.instance_types) > 1:
        assumption += f"; all are {variant.instance_types[0]}"
    yield ExpectedLine(f"instances, {costs.variant}", usd, assumption if price else UNKNOWN)
    if costs.volume is not None and hours is not None:
        usd = hours / HOURS_PER_DAY * costs.volume.usd_per_month
        size = f"{costs.volume.count:g} GB of each instance"
        yield ExpectedLine(f"volumes, {costs.variant}", usd, size)


def _estimate_instance_hours(
    environment: Environment, name: str, variant: Variant, requests: list[float]
) -> tuple[float | None, str]:
    """Return (instance hours of a day, the assumption behind them).

    The hours are None if they can't be estimated; the assumption is then the reason.
    """
    if variant.components:
        return (
            None,
            "unknown, because components share instances and each one's requests aren't stated",
        )
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


def _build_serverless_line(
    environment: Environment, costs: VariantCost, requests: float
) -> ExpectedLine:
    share = environment.compute_share(costs.variant)
    second, serverless = costs.usd_per_second, costs.serverless
    assert serverless is not None  # the caller checked
    name = f"serverless, {costs.variant}"
    if second is None:
        return ExpectedLine(name, None, UNKNOWN)
    warm = serverless.provisioned_concurrency or 0
    kept = warm * (costs.usd_per_warm_second or 0.0) * HOURS_PER_MONTH * 3600
    own = requests * (1.0 if share is None else share)
    assumption = f"{EXAMPLE_SECONDS * 1000:g} ms for each request"
    assumption += f", and {warm} containers kept warm" if warm else ""
    return ExpectedLine(name, own * EXAMPLE_SECONDS * second + kept, assumption)


def _build_data_line(costs: Cost, requests: float) -> ExpectedLine:
    data, name = costs.data, "data in and out"
    if data.usd_per_million_predictions is None:
        why = f"set {' and '.join(data.missing_keys)}" if data.missing_keys else UNKNOWN
        return ExpectedLine(name, None, why)
    sizes = f"{data.request_bytes:,} bytes and each response {data.answer_bytes:,}"
    assumption = f"each request has {sizes}, the maximum in [traffic]"
    return ExpectedLine(name, data.usd_per_million_predictions * requests / MILLION, assumption)


def _build_queue_line(environment: Environment, requests: float) -> ExpectedLine:
    """Return the cost of the requests and responses that an asynchronous endpoint keeps in S3."""
    traffic, queue = environment.traffic, environment.asynchronous
    assert queue is not None  # the endpoint has a queue
    name = "requests and responses in S3"
    if traffic.request_bytes is None or traffic.answer_bytes is None:
        return ExpectedLine(name, None, "set traffic.request_bytes and traffic.answer_bytes")
    each = traffic.request_bytes + traffic.answer_bytes
    stored_gb = requests / DAYS_PER_MONTH * queue.keep_days * each / BYTES_PER_GB
    assumption = (
        f"{stored_gb:,.1f} GB: asynchronous.keep_days = {queue.keep_days} keeps each request and response, "
        f"the maximum in [traffic], at ${S3_USD_PER_GB:g} per GB; S3's requests aren't included"
    )
    return ExpectedLine(name, stored_gb * S3_USD_PER_GB, assumption)
