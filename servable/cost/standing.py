"""The cost of idle resources (key, dashboard, alarms, metrics) and of instances' volumes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra.catalog.instances import load_instances
from infra.catalog.metrics import load_log_filters
from infra.catalog.prices import find_standing_price
from infra.parameters.environment import Environment
from infra.parameters.monitoring import OVERHEAD, WATCHED
from infra.parameters.rollout import MOST_ALARMS
from infra.parameters.variant import Variant

# SageMaker's own size of a volume: infra/parameters/variant.py.
_VOLUME_GB = 30
# Application Auto Scaling creates an alarm above and one below the target of each policy.
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
# (2026-11-22)
_TRACKING_ALARMS = 2
# On failed and expired requests, and on notifications that failed.
_QUEUE_ALARMS = 3
# On failed and on late runs; with a schedule on starts that failed, of two metrics.
_BATCH_ALARMS, _SCHEDULE_METRICS = 2, 2
# On requests that found no copy, and on minutes without requests.
_SLEEP_ALARMS = 2
# On answers during an update, and on the function that sends the requests.
_GOLDEN_ALARMS = 2
# An alarm with a shorter period is a high-resolution alarm.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html (2026-11-29)
_STANDARD_SECONDS = 60
STANDARD, HIGH_RESOLUTION = "alarm metric", "high-resolution alarm metric"
# Metrics of a rollback alarm on errors: errors, requests and answers of both fleets.
_ERROR_METRICS = 5


@dataclass(frozen=True)
class StandingItem:
    """An item that is charged monthly, whether or not anything runs."""

    name: str
    count: float
    usd_each: float
    price_of: str
    """Region and date of the price."""

    @property
    def usd_per_month(self) -> float:
        return self.count * self.usd_each


def list_standing_items(environment: Environment) -> tuple[StandingItem, ...]:
    """Return what costs when nothing runs, without subtracting the account's free tier.

    There are no items if no source states the prices of the Region's partition.
    """
    serves = bool(environment.variants)
    stores = (environment.capture, environment.asynchronous) if serves else ()
    keys = [environment.alarms.topic_kms_key, *(store.kms_key for store in stores if store)]
    counts = {
        "key": keys.count(None),  # the topic and each retained bucket get a key if they name none
        "dashboard": 1,
        "composite alarm": int(serves),
        **count_alarm_metrics(environment),
        "custom metric": len(load_log_filters()) if serves else 0,
    }
    return tuple(_build_items(counts, environment.region))


def build_volume_item(variant: Variant, region: str) -> StandingItem | None:
    """Return the volume of one instance, or None if there is no volume or no price."""
    types = [load_instances().get(name) for name in variant.instance_types]
    if variant.serverless is not None or any(kind and kind.local_nvme_gb for kind in types):
        return None
    size = variant.volume_gb or _VOLUME_GB
    return next(_build_items({"volume gb": size}, region), None)


def _build_items(counts: Mapping[str, int], region: str) -> Iterator[StandingItem]:
    for name, count in counts.items():
        price = find_standing_price(name, region)
        if price is not None and count:
            at = f"{price.region}, {price.as_of}"
            yield StandingItem(name, count, price.usd_per_month, at)


def count_alarm_metrics(environment: Environment) -> Counter[str]:
    """Count the metrics that the alarms watch, by the resolution that CloudWatch charges for.

    The resolution of alarms that Application Auto Scaling creates isn't documented; they count as
    standard ones.
    """
    alarms, kind = environment.alarms, environment.kind
    published = environment.metrics.find_intervals(kind)
    requests, utilization = (
        HIGH_RESOLUTION if seconds < _STANDARD_SECONDS else STANDARD
        for seconds in (published.requests_seconds, published.utilization_seconds)
    )
    count: Counter[str] = Counter()
    if environment.variants:
        # One on requests that a container rejects; with [asynchronous] one on the oldest request.
        count[STANDARD] += 1 + (kind.queued and alarms.oldest_request_minutes is not None)
    shared = [variant for variant in environment.variants.values() if variant.components]
    for variant in (*environment.serving_variants.values(), *shared):
        several = len(variant.instance_types) if len(variant.instance_types) > 1 else 0
        for metric, graph in _iterate_watched(environment, variant):
            # Each type of a pool has an alarm of its own.
            if graph == "saturation":
                count[utilization] += several or 1
            else:
                count[requests] += 1 + (several if metric == "ModelLatency" else 0)
        count[STANDARD] += _QUEUE_ALARMS if kind.queued else 0
        count[STANDARD] += _count_at_max_metrics(environment, variant)
        if variant not in shared:
            count[STANDARD] += alarms.no_traffic_minutes is not None and not variant.shadow
            count[STANDARD] += _count_scaling_metrics(environment, variant)
    for batch in environment.batch.values():
        count[STANDARD] += _BATCH_ALARMS
        count[STANDARD] += _SCHEDULE_METRICS if batch.schedule is not None else 0
    if environment.rollout is not None:
        served = list(environment.production_variants)
        rollback = environment.rollout.list_rollback_alarms(alarms, variants=served, kind=kind)
        for _, name in rollback[:MOST_ALARMS]:
            if name == "golden-requests":
                count[STANDARD] += _GOLDEN_ALARMS
            else:
                count[requests] += 1 if name == "latency" else _ERROR_METRICS
    return +count


def _iterate_watched(environment: Environment, variant: Variant) -> Iterator[tuple[str, str]]:
    """Yield (metric, graph) for each alarm of `WATCHED` that a variant has."""
    kind, types = environment.kind, map(load_instances().get, variant.instance_types)
    gpus = any(each and each.gpus for each in types)
    for graph, several in WATCHED.items():
        for name, (_, metric, _, key) in several.items():
            if getattr(environment.alarms, key) is None or not kind.has_metric(metric):
                continue
            if metric.startswith("GPU") and not gpus:
                continue
            if variant.components and (graph == "saturation") is bool(variant.component):
                continue  # components have requests, the instances that they share the rest
            if name == OVERHEAD and (variant.shadow or not kind.has_instances):
                continue
            yield metric, graph


def _count_at_max_metrics(environment: Environment, variant: Variant) -> int:
    """Count the metrics of the alarm that a variant or component has reached its maximum."""
    own = variant.component
    shared = bool(variant.components) and own is None
    scales = own is not None or ((variant.is_scaled or shared) and environment.kind.has_instances)
    least, most = own.capacity if own else (variant.min_instances, variant.instance_limit)
    if not scales or most <= least:
        return 0
    # Requests by requests of an instance; where SageMaker publishes neither, a count of the instances.
    return 1 if shared or not environment.kind.has_metric("Invocations") else 2


def _count_scaling_metrics(environment: Environment, variant: Variant) -> int:
    """Count the metrics of the alarms that scale a variant or a component."""
    if not variant.is_scaled:
        return 0
    count = _SLEEP_ALARMS if variant.sleep_after_minutes else 0
    if (scaling := variant.scaling) is None:
        return count
    targets = (
        scaling.max_rps_per_instance, scaling.max_concurrency_per_instance,
        scaling.max_backlog_per_instance, scaling.provisioned_use_percent,
    )  # fmt: skip
    count += _TRACKING_ALARMS * sum(target is not None for target in targets)
    count += len({step.above_rps is None for step in scaling.steps})  # a policy for each way
    return count + (environment.kind.queued and variant.capacity[0] == 0)
