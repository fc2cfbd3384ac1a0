"""How often the local AWS publishes what containers use."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.published_metrics import UTILISATION_NAMESPACE
from servable_scaling.alarms.query import Metric

START = datetime(2026, 11, 22, 12, 0)
OF = {"EndpointName": "ranker", "VariantName": "primary"}


def published(config: dict[str, Any]) -> float:
    """Values of CPU utilization in five minutes, of which every 10 s is looked at."""
    variant = SimpleNamespace(name="primary", utilisation=lambda: [({"CPUUtilization": 1.0}, ())])
    fleet = SimpleNamespace(everybody=lambda: [variant])
    endpoint = SimpleNamespace(name="ranker", kind="real_time", config=config, fleet=fleet)
    store = MetricStore()
    hosting: Any = SimpleNamespace(
        endpoints={"ranker": endpoint},
        cloudwatch=SimpleNamespace(metrics=store),
        _logs=SimpleNamespace(forward=lambda: None),
    )
    for seconds in range(10, 310, 10):
        RegionalHosting.measure(hosting, START + timedelta(seconds=seconds))
    metric = Metric.of(UTILISATION_NAMESPACE, "CPUUtilization", OF)
    return store.between(metric, START, START + timedelta(seconds=300)).count


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({}, 5),
        ({"MetricsConfig": {"MetricPublishFrequencyInSeconds": 10}}, 30),
        ({"MetricsConfig": {"MetricPublishFrequencyInSeconds": 120}}, 2),
    ],
    ids=["default", "10 s", "120 s"],
)
def test_the_interval_of_utilization(config: dict[str, Any], count: int) -> None:
    assert published(config) == count
