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
from infra.catalog.limits import load_table

# The namespace contains the endpoint's name, because a metric filter cannot set a fixed dimension.
OWN = "Servable/"
REAL_TIME = "real_time"
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d+)?|100)")


class UnpublishedMetricError(ValueError):
    """The metric isn't published: an alarm on it never fires, and a graph stays empty."""


def check_metric(
    namespace: str, name: str, statistic: str, dimensions: Collection[str], kind: str = REAL_TIME
) -> None:
    """Raise `UnpublishedMetricError` for a metric that isn't in metrics.json.

    `kind` is the kind of the endpoint: real_time, asynchronous, or serverless.
    """
    kinds = load_table("metrics")["namespaces"]
    of_namespace = kinds.get(f"{OWN}ENDPOINT" if namespace.startswith(OWN) else namespace)
    if of_namespace is None:
        raise UnpublishedMetricError(f"namespace {namespace} is unknown; known: {', '.join(kinds)}")
    metric = of_namespace["metrics"].get(name)
    if metric is None:
        names = ", ".join(of_namespace["metrics"])
        raise UnpublishedMetricError(f"{namespace} has no metric {name}; it has {names}")
    if kind not in metric.get("kinds", [REAL_TIME]):
        raise UnpublishedMetricError(f"{kind} endpoints do not publish {name}")
    is_percentile = metric.get("percentiles") and _PERCENTILE.fullmatch(statistic)
    if statistic not in metric["statistics"] and not is_percentile:
        raise UnpublishedMetricError(f"{name} has no {statistic}; it has {metric['statistics']}")
    given = sorted(dimensions)
    if given not in metric.get("dimensions", of_namespace["dimensions"]):
        raise UnpublishedMetricError(f"{name} is not published with the dimensions {given}")


def compute_minimum_samples(percentile: str) -> int:
    """Return the number of samples from which CloudWatch considers a percentile significant.

    The samples are those of an alarm's evaluation period, and the percentile is p50 to p99.9: p99
    needs 1000, p90 needs 100.
    Source (2026-11-22):
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
    """
    return math.ceil(round(10 * 100 / (100 - float(percentile.removeprefix("p"))), 6))


def find_unit(name: str) -> str:
    """Return CloudWatch's unit of a metric. Raise KeyError for an unknown metric."""
    return str(_index_rows()[name][1]["unit"])


def find_namespace(name: str) -> str:
    """Return the metric's namespace. Raise `UnpublishedMetricError` for an unknown metric."""
    rows = _index_rows()
    if name not in rows:
        raise UnpublishedMetricError(f"no endpoint has a metric {name}; allowed: {', '.join(rows)}")
    return rows[name][0]


def compute_full_percent(name: str, instance: Instance | None) -> int:
    """Return the metric's value for a fully used instance: 100 for each vCPU or GPU, or in all.

    `instance` is None for a serverless container.
    """
    each = _index_rows()[name][1].get("hundred_percent_each")
    if instance is None:
        return 100
    return 100 * {"vcpu": instance.vcpus, "gpu": instance.gpus, None: 1}[each]


def is_published(kind: str, name: str) -> bool:
    """Return whether this kind of endpoint publishes the metric. Raise KeyError if unknown."""
    return kind in _index_rows()[name][1].get("kinds", [REAL_TIME])


@functools.cache
def _index_rows() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return a dict from metric to namespace and row. A metric is in only one namespace."""
    return {
        name: (namespace, row)
        for namespace, published in load_table("metrics")["namespaces"].items()
        for name, row in published["metrics"].items()
    }


@dataclass(frozen=True)
class LogFilter:
    metric: str
    pattern: str
    meaning: str


@functools.cache
def load_log_filters() -> tuple[LogFilter, ...]:
    """Return every filter, in the order of the table."""
    rows = load_table("log_filters")["filters"]
    return tuple(LogFilter(metric=metric, **row) for metric, row in rows.items())
