"""Whatever is switched on, nothing uses a metric, statistic, unit or dimension nobody publishes."""

import tempfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.catalog.limits import load_table
from infra.catalog.metrics import OWN, UnpublishedMetricError, check_metric, find_unit
from infra.parameters.environment import Environment
from stacks.data_stack import DataStack
from stacks.endpoint_stack import EndpointStack
from tests.constructs.conftest import FLAGS, Synthesised
from tests.constructs.used_metrics import Used, customized, in_alarms, on_dashboard, tracked

HASH = "a" * 64
PERCENTS = st.none() | st.floats(0.1, 99)
ALARMS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("p50_latency_ms", "p90_latency_ms", "p99_latency_ms"), st.none() | st.floats(1, 60_000)
        ),
        **dict.fromkeys(
            ("error_4xx_percent", "model_error_percent", "gpu_memory_percent"), PERCENTS
        ),
        "no_traffic_minutes": st.none() | st.integers(1, 1440),
        "page": st.sampled_from([[], ["https://pager.example.com/hook"]]),
        "events": st.booleans(),
    },
)
TYPES = ("ml.c5.xlarge", "ml.m5.large", "ml.g4dn.12xlarge", "ml.g5.xlarge", "ml.c7i.2xlarge")
SCALED = {
    "real_time": {
        "max_rps_per_instance": 10.0,
        "max_concurrency_per_instance": 4.0,
        "steps": [{"above_rps": 20.0, "change": 2}, {"below_rps": 1.0, "change": -1}],
    },
    "asynchronous": {"max_backlog_per_instance": 5.0},
    "serverless": {"provisioned_use_percent": 70.0},
}


def _variant(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    machine: dict[str, Any] = {
        "instance_type": st.sampled_from(TYPES),
        "min_instances": st.integers(0 if kind == "asynchronous" else 1, 1),
        "max_instances": st.integers(1, 20),
    }
    if kind == "serverless":
        asked = {"memory_mib": 2048, "max_concurrency": 5, "provisioned_concurrency": 2}
        machine = {"serverless": st.just(asked)}
    return st.fixed_dictionaries(
        {"model": st.just("ranker"), **machine}, optional={"scaling": st.just(SCALED[kind])}
    )


def _variants(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    names = ["a", "b", "c", "d", "e"] if kind == "real_time" else ["a"]
    return st.dictionaries(st.sampled_from(names), _variant(kind), min_size=1, max_size=len(names))


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(SCALED)))
    values: dict[str, Any] = draw(SHARED) | {"variants": draw(_variants(kind))}
    if kind == "asynchronous":
        values["asynchronous"] = {}
    if kind == "serverless":
        values.pop("rollout", None)
    if len(values["variants"]) == 2 and draw(st.booleans()):
        values["variants"][max(values["variants"])]["shadow"] = True
    return values


SHARED = st.fixed_dictionaries(
    {
        "account": st.just("111111111111"),
        "region": st.just("eu-west-1"),
        "endpoint": st.just({"name": "ranker"}),
        "models": st.just(
            {
                "ranker": {
                    "artifact": {"uri": "s3://models/model.tar.gz", "sha256": HASH},
                    "tensorflow": "2.20",
                }
            }
        ),
        "alarms": ALARMS,
    },
    optional={
        "rollout": st.just({"strategy": "canary"}),
        "capture": st.just({}),
        "metrics": st.fixed_dictionaries(
            {"enhanced_metrics": st.booleans(), "publish_seconds": st.sampled_from([10, 60, 300])}
        ),
        "network": st.just({"subnets": ["subnet-0a1b2c3d"], "security_groups": ["sg-0a1b2c3d"]}),
    },
)


def synthesised(values: dict[str, Any], out: str) -> Synthesised:
    environment = Environment.model_validate(values)
    app = cdk.App(context=FLAGS, outdir=out)
    where = cdk.Environment(account=environment.account, region=environment.region)
    stage = cdk.Stage(app, "prod", env=where)
    data = None
    if environment.capture is not None or environment.asynchronous is not None:
        data = DataStack(
            stage,
            "data",
            endpoint_name="ranker",
            capture=environment.capture,
            asynchronous=environment.asynchronous,
            tags={},
        )
    stack = EndpointStack(
        stage,
        "endpoint",
        environment=environment,
        root=Path(),
        overrides={},
        captured=data.captured if data else None,
        queued=data.queued if data else None,
    )
    return Synthesised(dict(Template.from_stack(stack).to_json()))


def used(found: Synthesised) -> list[Used]:
    return [
        *in_alarms(found.all("AWS::CloudWatch::Alarm")),
        *on_dashboard(found.one("AWS::CloudWatch::Dashboard")),
    ]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(environments())
def test_nothing_looks_at_what_nobody_publishes(values: dict[str, Any]) -> None:
    looks_at_what_is_published(values)


@pytest.mark.long
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(environments())
def test_nothing_looks_at_what_nobody_publishes_in_full(values: dict[str, Any]) -> None:
    looks_at_what_is_published(values)


def looks_at_what_is_published(values: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as out:
        found = synthesised(values, out)
    kind = Environment.model_validate(values).kind.name
    counted = {
        (one["MetricNamespace"], one["MetricName"])
        for each in found.all("AWS::Logs::MetricFilter")
        for one in each["MetricTransformations"]
    }
    for one in used(found):
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)
        assert one.unit in (None, find_unit(one.name)), one
        assert not one.namespace.startswith(OWN) or (one.namespace, one.name) in counted, one
    policies = found.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    assert tracked(policies) <= set(load_table("metrics")["scaling_kinds"][kind])
    for one in customized(policies):
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)


@pytest.mark.parametrize(
    ("kind", "name", "dimensions"),
    [
        ("asynchronous", "Invocations", ["EndpointName", "VariantName"]),
        ("asynchronous", "OverheadLatency", ["EndpointName", "VariantName"]),
        ("asynchronous", "ApproximateBacklogSizePerInstance", ["EndpointName", "VariantName"]),
        ("real_time", "ApproximateBacklogSizePerInstance", ["EndpointName"]),
        ("serverless", "InvocationsPerInstance", ["EndpointName", "VariantName"]),
    ],
)
def test_what_a_kind_does_not_publish_is_refused(
    kind: str, name: str, dimensions: list[str]
) -> None:
    statistic = "Average" if name.startswith(("App", "Over")) else "Sum"
    with pytest.raises(UnpublishedMetricError):
        check_metric("AWS/SageMaker", name, statistic, dimensions, kind)


@pytest.mark.parametrize(
    ("namespace", "name", "statistic", "dimensions"),
    [
        ("AWS/SageMaker", "OverheadLatency", "p99", ["EndpointName", "VariantName"]),
        ("AWS/SageMaker", "ModelLatency", "p99", ["EndpointName"]),
        ("AWS/SageMaker", "CPUUtilization", "Average", ["EndpointName", "VariantName"]),
        ("/aws/sagemaker/Endpoints", "ModelLatency", "Average", ["EndpointName", "VariantName"]),
        ("AWS/SageMaker", "Invocations", "Average", ["EndpointName", "VariantName"]),
        ("AWS/Sagemaker", "Invocations", "Sum", ["EndpointName", "VariantName"]),
        ("AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", ["EndpointName"]),
    ],
)
def test_what_nobody_publishes_is_refused(
    namespace: str, name: str, statistic: str, dimensions: list[str]
) -> None:
    with pytest.raises(UnpublishedMetricError):
        check_metric(namespace, name, statistic, dimensions)
