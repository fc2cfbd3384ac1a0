"""What an endpoint publishes to CloudWatch: names, units, statistics, dimensions."""

import math
import re
from collections.abc import Collection
from typing import Any

from infra.catalog.instances import Instance
from infra.catalog.table import table

# The endpoint's name is part of it: a metric filter cannot give its metric a fixed dimension.
OWN = "Servable/"
REAL_TIME = "real_time"
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d+)?|100)")


class UnpublishedMetricError(ValueError):
    """Nobody publishes it: an alarm on it would never fire, a graph of it would stay empty."""


def check(
    namespace: str,
    name: str,
    statistic: str,
    dimensions: Collection[str],
    kind: str = REAL_TIME,
) -> None:
    """Raises `UnpublishedMetricError` for what is not in the list of metrics.json.

    `kind` of the endpoint: real_time, asynchronous, serverless.
    """
    kinds = table("metrics")["namespaces"]
    of_namespace = kinds.get(_listed(namespace))
    if of_namespace is None:
        raise UnpublishedMetricError(f"no namespace {namespace}; there are {', '.join(kinds)}")
    metric = of_namespace["metrics"].get(name)
    if metric is None:
        known = ", ".join(of_namespace["metrics"])
        raise UnpublishedMetricError(f"no metric {name} in {namespace}; there are {known}")
    if kind not in metric.get("kinds", [REAL_TIME]):
        raise UnpublishedMetricError(f"{name} is not published of a {kind} endpoint")
    if statistic not in metric["statistics"] and not (
        metric.get("percentiles") and _PERCENTILE.fullmatch(statistic)
    ):
        raise UnpublishedMetricError(f"{name} has no {statistic}; it has {metric['statistics']}")
    if sorted(dimensions) not in metric.get("dimensions", of_namespace["dimensions"]):
        raise UnpublishedMetricError(f"{name} is not published with {sorted(dimensions)}")


def least_samples(percentile: str) -> int:
    """Samples in an alarm's evaluation period, below which CloudWatch calls a percentile (p50 to
    p99.9) not significant: p99 1000, p90 100.

    Source (2026-11-22):
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
    """
    above_percent = 100 - float(percentile.removeprefix("p"))
    return math.ceil(round(10 * 100 / above_percent, 6))


def unit(namespace: str, name: str) -> str:
    """CloudWatch's word for it. Raises KeyError."""
    return str(_metric(namespace, name)["unit"])


def full_percent(namespace: str, name: str, instance: Instance | None) -> int:
    """The metric's own number for a machine that is fully used: 100 for each vCPU or GPU, or 100.

    `instance` None: a serverless container, which is one.
    """
    each = _metric(namespace, name).get("hundred_percent_each")
    if instance is None:
        return 100
    return 100 * {"vcpu": instance.vcpus, "gpu": instance.gpus, None: 1}[each]


def publishes(kind: str, name: str, namespace: str) -> bool:
    """Whether an endpoint of this kind publishes it. Raises KeyError for an unknown metric."""
    return kind in _metric(namespace, name).get("kinds", [REAL_TIME])


def scaling_metrics(kind: str | None = None) -> tuple[str, ...]:
    """What Application Auto Scaling can track for SageMaker; of one kind of endpoint, or of any."""
    found = table("metrics")
    return tuple(found["scaling"] if kind is None else found["scaling_kinds"][kind])


def _metric(namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = table("metrics")["namespaces"][_listed(namespace)]["metrics"][name]
    return found


def _listed(namespace: str) -> str:
    return f"{OWN}ENDPOINT" if namespace.startswith(OWN) else namespace
