"""What SageMaker publishes, in its own names, dimensions and units.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from infra.catalog.metrics import REAL_TIME, publishes
from servable_local.aws.clock import Clock
from servable_local.aws.cloudwatch.metric_store import Metric, MetricStore
from servable_local.aws.sagemaker import utilisation
from servable_local.aws.sagemaker.fleet import HostedVariant

NAMESPACE = "AWS/SageMaker"
_MICROSECONDS_PER_SECOND = 1_000_000
_COUNT, _TIME = "None", "Microseconds"


@dataclass(frozen=True)
class Invocation:
    """One request that reached a container. `status` 0: no HTTP answer came."""

    status: int
    instance_count: int
    model_seconds: float
    overhead_seconds: float


def publish_invocation(
    store: MetricStore,
    clock: Clock,
    invocation: Invocation,
    *,
    endpoint: str,
    variant: str,
    config: str | None,
    kind: str = REAL_TIME,
) -> None:
    """`config` adds a second set, of one fleet alone, while an update is watched.

    `kind` of the endpoint: asynchronous and serverless ones publish less.
    """
    status = invocation.status
    # Each is sent for every request, 0 or 1, so that its average is a share.
    counted = {
        "Invocations": 1.0,
        "InvocationsPerInstance": 1.0 / max(1, invocation.instance_count),
        "Invocation4XXErrors": float(400 <= status < 500),
        "Invocation5XXErrors": float(500 <= status < 600),
        # Any answer but 2xx; broken connections and timeouts too, unlike the two above.
        "InvocationModelErrors": float(not 200 <= status < 300),
    }
    timed = {
        "ModelLatency": invocation.model_seconds,
        "OverheadLatency": max(0.0, invocation.overhead_seconds),
    }
    at = clock.now()
    dimensions = {"EndpointName": endpoint, "VariantName": variant}
    of_one_fleet = [dimensions | {"EndpointConfigName": config}] if config else []
    for them in [dimensions, *of_one_fleet]:
        for name, value in counted.items():
            if not publishes(kind, name, NAMESPACE):
                continue
            store.add(Metric.of(NAMESPACE, name, them), value, unit=_COUNT, at=at)
        for name, seconds in timed.items():
            if not publishes(kind, name, NAMESPACE):
                continue
            microseconds = round(seconds * _MICROSECONDS_PER_SECOND)
            store.add(Metric.of(NAMESPACE, name, them), microseconds, unit=_TIME, at=at)


def publish_utilisation(
    store: MetricStore, at: datetime, *, endpoint: str, variant: HostedVariant
) -> None:
    """Of the minute that ends at `at`."""
    dimensions = {"EndpointName": endpoint, "VariantName": variant.name}
    within = at - timedelta(seconds=1)
    for name, percent in variant.utilisation.look(variant.container).items():
        if variant.serverless and not publishes("serverless", name, utilisation.NAMESPACE):
            continue
        metric = Metric.of(utilisation.NAMESPACE, name, dimensions)
        store.add(metric, percent, unit="Percent", at=within)
