"""Cost of what stays when nothing runs: key, dashboard, alarms, metrics; and of the instances' volumes."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalog.instances import instances
from infra.catalog.log_filters import log_filters
from infra.catalog.prices import standing_price
from infra.parameters.alarms import OVERHEAD, WATCHED
from infra.parameters.environment import Environment
from infra.parameters.rollout import MOST_ALARMS
from infra.parameters.variant import Variant

# SageMaker's own size of a volume: infra/parameters/variant.py.
_VOLUME_GB = 30
# Application Auto Scaling makes an alarm above and one below the target of each policy.
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
# (2026-11-22)
_TRACKING_ALARMS = 2
# On failed and expired requests, and on notifications that failed.
_QUEUE_ALARMS = 3
# On failed and on late runs; with a schedule on starts that failed, of two metrics.
_BATCH_ALARMS, _SCHEDULE_METRICS = 2, 2
# Metrics of a rollback alarm on errors: errors, requests and answers of both fleets.
_ERROR_METRICS = 5


@dataclass(frozen=True)
class StandingItem:
    """Something that is paid by the month, whatever runs."""

    name: str
    count: float
    usd_each: float
    price_of: str
    """Region and date of the price."""

    @property
    def usd_per_month(self) -> float:
        return self.count * self.usd_each


@dataclass(frozen=True, kw_only=True)
class StandingCost:
    """What stays when nothing runs. Empty: no source states the prices of the region's partition."""

    items: tuple[StandingItem, ...]

    @property
    def usd_per_month(self) -> float | None:
        return sum(item.usd_per_month for item in self.items) if self.items else None


def standing(environment: Environment) -> StandingCost:
    """Return the standing cost of an environment, without AWS's free allowances of an account."""
    counts = {
        "key": _keys(environment),
        "dashboard": 1,
        "composite alarm": 1 if environment.variants else 0,
        "alarm metric": alarm_metrics(environment),
        "custom metric": len(log_filters()) if environment.variants else 0,
    }
    return StandingCost(items=tuple(_items(counts, environment.region)))


def volume(variant: Variant, region: str) -> StandingItem | None:
    """Return the volume of one instance; None where there is none, or no price."""
    types = [instances()[name] for name in variant.instance_types if name in instances()]
    if variant.serverless is not None or any(kind.local_nvme_gb for kind in types):
        return None
    size = variant.volume_gb or _VOLUME_GB
    return next(_items({"volume gb": size}, region), None)


def _items(counts: dict[str, int], region: str) -> Iterator[StandingItem]:
    for name, count in counts.items():
        price = standing_price(name, region)
        if price is not None and count:
            at = f"{price.region}, {price.as_of}"
            yield StandingItem(name, count, price.usd_per_month, at)


def _keys(environment: Environment) -> int:
    """Keys of the stacks' own: of the topic, and of each bucket that is retained."""
    stores = (environment.capture, environment.asynchronous) if environment.variants else ()
    return (environment.alarms.topic_kms_key is None) + sum(
        store is not None and store.kms_key is None for store in stores
    )


def alarm_metrics(environment: Environment) -> int:
    """Return about how many metrics the alarms watch, which is what CloudWatch charges for."""
    alarms, kind = environment.alarms, environment.kind
    # One on requests that a container turned away; with [asynchronous] one on the oldest request.
    count = 1 + (kind.queued and alarms.oldest_request_minutes is not None)
    count *= bool(environment.variants)
    watched = [
        (name, metric, graph)
        for graph, several in WATCHED.items()
        for name, (_, metric, _, key) in several.items()
        if getattr(alarms, key) is not None and kind.publishes(metric)
    ]
    shared = [variant for variant in environment.variants.values() if variant.components]
    for variant in (*environment.served.values(), *shared):
        types = variant.instance_types
        gpus = any(instances()[name].gpus for name in types if name in instances())
        for name, metric, graph in watched:
            if metric.startswith("GPU") and not gpus:
                continue
            if variant.components and (graph == "saturation") is bool(variant.component):
                continue  # components have requests, the instances that they share the rest
            if name == OVERHEAD and (variant.shadow or not kind.has_instances):
                continue
            several = len(types) if len(types) > 1 else 0
            # Each type of a pool has an alarm of its own.
            count += several or 1 if graph == "saturation" else 1
            count += several if metric == "ModelLatency" else 0
        count += _QUEUE_ALARMS if kind.queued else 0
        if variant in shared:
            continue
        count += alarms.no_traffic_minutes is not None and not variant.shadow
        if (scaling := variant.scaling) is not None:
            targets = (
                scaling.max_rps_per_instance, scaling.max_concurrency_per_instance,
                scaling.max_backlog_per_instance, scaling.provisioned_use_percent,
            )  # fmt: skip
            tracked = sum(target is not None for target in targets)
            count += 1 + _TRACKING_ALARMS * tracked + len(scaling.steps)
    for batch in environment.batch.values():
        count += _BATCH_ALARMS + (_SCHEDULE_METRICS if batch.schedule is not None else 0)
    if environment.rollout is not None:
        served = [name for name, variant in environment.variants.items() if not variant.shadow]
        rollback = environment.rollout.rollback_alarms(alarms, variants=served, kind=kind)
        count += sum(
            1 if name in ("latency", "golden-requests") else _ERROR_METRICS
            for _, name in rollback[:MOST_ALARMS]
        )
    return count
