"""Whatever is switched on, nothing uses a metric, statistic, unit or dimension nobody publishes."""

from collections.abc import Callable

import pytest

from infra.catalog.limits import load_table
from infra.catalog.metrics import OWN, UnpublishedMetricError, check_metric, find_unit
from tests.constructs.conftest import Synthesised
from tests.constructs.test_alarm_conditions import FILES
from tests.constructs.used_metrics import customized, in_alarms, on_dashboard, tracked

# Metrics of golden requests, batches and components are in no table of endpoints' metrics.
GOLDEN = 'golden_requests = { body = "golden/request-rows.json" }\n'
KINDS = {
    FILES["rollout"].replace(GOLDEN, ""): "real_time",
    FILES["pools"]: "real_time",
    FILES["queue"]: "asynchronous",
    FILES["serverless"]: "serverless",
}


@pytest.mark.long
@pytest.mark.parametrize("text", KINDS, ids=["rollout", "pools", "queue", "serverless"])
def test_nothing_looks_at_what_nobody_publishes(
    synthesise: Callable[..., Synthesised], text: str
) -> None:
    looks_at_what_is_published(synthesise(text), KINDS[text])


def looks_at_what_is_published(found: Synthesised, kind: str) -> None:
    counted = {
        (one["MetricNamespace"], one["MetricName"])
        for each in found.all("AWS::Logs::MetricFilter")
        for one in each["MetricTransformations"]
    }
    for one in (
        *in_alarms(found.all("AWS::CloudWatch::Alarm")),
        *on_dashboard(found.one("AWS::CloudWatch::Dashboard")),
    ):
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)
        assert one.unit in (None, find_unit(one.name)), one
        assert not one.namespace.startswith(OWN) or (one.namespace, one.name) in counted, one
    policies = found.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    assert tracked(policies) <= set(load_table("metrics")["scaling_kinds"][kind])
    for one in customized(policies):
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)


BOTH = ("EndpointName", "VariantName")


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "statistic", "dimensions"),
    [
        ("asynchronous", "AWS/SageMaker", "Invocations", "Sum", BOTH),
        ("asynchronous", "AWS/SageMaker", "OverheadLatency", "Average", BOTH),
        ("asynchronous", "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH),
        ("real_time", "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH[:1]),
        ("serverless", "AWS/SageMaker", "InvocationsPerInstance", "Sum", BOTH),
        (None, "AWS/SageMaker", "OverheadLatency", "p99", BOTH),
        (None, "AWS/SageMaker", "ModelLatency", "p99", BOTH[:1]),
        (None, "AWS/SageMaker", "CPUUtilization", "Average", BOTH),
        (None, "/aws/sagemaker/Endpoints", "ModelLatency", "Average", BOTH),
        (None, "AWS/SageMaker", "Invocations", "Average", BOTH),
        (None, "AWS/Sagemaker", "Invocations", "Sum", BOTH),
        (None, "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH[:1]),
    ],
)
def test_what_nobody_or_the_kind_does_not_publish_is_refused(
    kind: str | None, namespace: str, name: str, statistic: str, dimensions: tuple[str, ...]
) -> None:
    with pytest.raises(UnpublishedMetricError):
        check_metric(namespace, name, statistic, dimensions, *filter(None, [kind]))
