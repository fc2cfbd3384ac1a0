"""Look up the metrics that an endpoint publishes to CloudWatch: names, units, statistics, dimensions.

Metric filters count lines of the container's log; the table has their patterns.
"""

import functools
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from infra.catalog.instances import Instance
from infra.catalog.limits import table

# The namespace contains the endpoint's name, because a metric filter cannot set a fixed dimension.
OWN = "Servable/"
REAL_TIME = "real_time"
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d+)?|100)")


class UnpublishedMetricError(ValueError):
    """The metric is not published: an alarm on it would never fire and a graph would stay empty."""


def check(
    namespace: str,
    name: str,
    statistic: str,
    dimensions: Collection[str],
    kind: str = REAL_TIME,
) -> None:
    """Raises `UnpublishedMetricError` for a metric that is not in metrics.json.

    `kind` is the endpoint's: real_time, asynchronous or serverless.
    """
    kinds = table("metrics")["namespaces"]
    of_namespace = kinds.get(f"{OWN}ENDPOINT" if namespace.startswith(OWN) else namespace)
    if of_namespace is None:
        raise UnpublishedMetricError(f"namespace {namespace} is unknown; known: {', '.join(kinds)}")
    metric = of_namespace["metrics"].get(name)
    if metric is None:
        names = ", ".join(of_namespace["metrics"])
        raise UnpublishedMetricError(f"{namespace} has no metric {name}; it has {names}")
    if kind not in metric.get("kinds", [REAL_TIME]):
        raise UnpublishedMetricError(f"{kind} endpoints do not publish {name}")
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


def unit(name: str) -> str:
    """CloudWatch's unit of a metric. Raises KeyError."""
    return str(_rows()[name][1]["unit"])


def namespace_of(name: str) -> str:
    """The namespace in which SageMaker publishes the metric. Raises `UnpublishedMetricError`."""
    if name not in _rows():
        raise UnpublishedMetricError(
            f"no endpoint has a metric {name}; allowed: {', '.join(_rows())}"
        )
    return _rows()[name][0]


def full_percent(name: str, instance: Instance | None) -> int:
    """The metric's value for a fully used instance: 100 for each vCPU or GPU, or 100 in all.

    `instance` is None for a serverless container.
    """
    each = _rows()[name][1].get("hundred_percent_each")
    if instance is None:
        return 100
    return 100 * {"vcpu": instance.vcpus, "gpu": instance.gpus, None: 1}[each]


def publishes(kind: str, name: str) -> bool:
    """Whether an endpoint of this kind publishes the metric. Raises KeyError for an unknown one."""
    return kind in _rows()[name][1].get("kinds", [REAL_TIME])


@functools.cache
def _rows() -> dict[str, tuple[str, dict[str, Any]]]:
    """Metric to namespace and row: no two namespaces have a metric of the same name."""
    return {
        name: (namespace, row)
        for namespace, published in table("metrics")["namespaces"].items()
        for name, row in published["metrics"].items()
    }


@dataclass(frozen=True)
class LogFilter:
    metric: str
    pattern: str
    meaning: str


@functools.cache
def log_filters() -> tuple[LogFilter, ...]:
    """Every filter, in the order of the table."""
    rows = table("log_filters")["filters"]
    return tuple(LogFilter(metric=metric, **row) for metric, row in rows.items())
