"""Every public construct in one stack of an app: who may do what, and what SageMaker is told."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template

from servable import constructs as own
from tests.conftest import Environment
from tests.constructs import own_constructs
from tests.constructs.conftest import stack_of

HERE = cdk.Environment(account="111111111111", region="eu-west-1")
KINDS = (
    "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::KMS::Key", "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
)  # fmt: skip
TOLD = (
    "AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::Events::Rule", "AWS::SageMaker::Endpoint", "AWS::SageMaker::EndpointConfig",
    "AWS::SageMaker::InferenceComponent", "AWS::Scheduler::Schedule",
)  # fmt: skip
# Contents of an archive, of a configuration, and of a logical id.
_HASHES = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{8}(?=[0-9A-F]{8}\b)|(?<=Policy)[0-9a-f]{8}|(?!\d{8}\b)[0-9A-F]{8}\b"
)


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = str(tmp_path_factory.mktemp("full") / "out")
    app = cdk.App(outdir=out, builtin_cloud_formation_validation=False)
    stack = cdk.Stack(app, "full", env=HERE)
    own_constructs.full(stack, "full")
    return dict(Template.from_stack(stack).to_json()["Resources"])


def shown(value: Any) -> str:
    """Return a property as text without hashes; a list in brackets."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith(("Fn:", "Ref")):
        ((function, argument),) = value.items()
        if function == "Fn::Join":
            return "".join(map(shown, argument[1]))
        parts = argument if isinstance(argument, list) else [argument]
        return f"<{_HASHES.sub('', '.'.join(map(shown, parts)))}>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(inner)}" for key, inner in value.items()) + "}"
    return _HASHES.sub("HASH", str(value))


def lines_of(name: str, resource: dict[str, Any]) -> Iterator[str]:
    yield f"{resource['Type']} {_HASHES.sub('', name)}"
    properties = dict(resource["Properties"])
    document = next((key for key in ("PolicyDocument", "KeyPolicy") if key in properties), None)
    if document is not None:
        for each in properties.pop(document)["Statement"]:
            who = f" {shown(each['Principal'])}" if "Principal" in each else ""
            condition = f" if {shown(each['Condition'])}" if "Condition" in each else ""
            yield f"  {each['Effect']}{who} {shown(each['Action'])} on {shown(each['Resource'])}{condition}"
    for key, value in properties.items():
        yield f"  {key}: {shown(value)}"


@pytest.mark.parametrize("kinds", [KINDS, TOLD], ids=["may", "told"])
def test_a_stack_allows_and_tells_what_is_written_down(
    resources: dict[str, Any], kinds: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    expected = (Path(__file__).parent / f"own_full_stack_{name}.txt").read_text()
    lines = [
        line
        for name, resource in resources.items()
        if resource["Type"] in kinds and not name.startswith("Vpc")
        for line in lines_of(name, resource)
    ]
    assert lines == expected.splitlines()


RANKER = own_constructs.RANKER / "model"
METRICS = {
    "invocations": ("Invocations", "Sum"),
    "invocations_per_instance": ("InvocationsPerInstance", "Sum"),
    "invocation_4xx_errors": ("Invocation4XXErrors", "Average"),
    "invocation_5xx_errors": ("Invocation5XXErrors", "Average"),
    "model_latency": ("ModelLatency", "p99"),
    "overhead_latency": ("OverheadLatency", "Average"),
    "cpu_utilization": ("CPUUtilization", "Average"),
    "memory_utilization": ("MemoryUtilization", "Maximum"),
    "disk_utilization": ("DiskUtilization", "Maximum"),
    "gpu_utilization": ("GPUUtilization", "Average"),
    "gpu_memory_utilization": ("GPUMemoryUtilization", "Maximum"),
}


class Pair:
    """A stack with an endpoint of two variants, `a` and `b`, of one model."""

    def __init__(self, **endpoint: Any) -> None:
        self.stack = cdk.Stack(
            cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE
        )
        self.logs = own.EndpointLogs(self.stack, "Logs", endpoint_name="search")
        self.model = own.packed_model(
            self.stack, "Model", name="ranker", folder=RANKER, instance_type="ml.c5.xlarge",
            logs=self.logs,
        )  # fmt: skip
        variants = [
            own.InstanceVariant(name="a", model=self.model, min_instances=0, max_instances=4),
            own.InstanceVariant(name="b", model=self.model, shadow=True, min_instances=2),
        ]
        self.endpoint = own.ModelEndpoint(
            self.stack, "Endpoint", name="search", variants=variants, **endpoint
        )

    def scale(self, variant: str) -> None:
        own.EndpointScaling(
            self.stack, f"Scaling{variant}", endpoint=self.endpoint, variant=variant,
            scaling=own.Scaling(max_rps_per_instance=10),
        )  # fmt: skip

    @property
    def config(self) -> dict[str, Any]:
        found = Template.from_stack(self.stack).find_resources("AWS::SageMaker::EndpointConfig")
        (resource,) = found.values()
        return dict(resource["Properties"])


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_the_one_of_its_name_with_the_statistic_that_it_promises(name: str) -> None:
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "caller", env=HERE)
    other = own.ModelEndpoint.from_endpoint_name(stack, "Other", "other")
    made = getattr(other, f"metric_{name}")("primary")
    assert (made.metric_name, made.statistic) == METRICS[name]
    assert made.period.to_seconds() == 60
    assert made.dimensions == {"EndpointName": "other", "VariantName": "primary"}
    other_way = getattr(other, f"metric_{name}")(
        "primary", label="shown", period=cdk.Duration.minutes(5)
    )
    assert (other_way.label, other_way.period.to_seconds()) == ("shown", 300)


def test_a_metric_of_several_variants_needs_a_name_that_there_is() -> None:
    endpoint = Pair().endpoint
    assert (endpoint.metric_invocations("b").dimensions or {})["VariantName"] == "b"
    with pytest.raises(ValueError, match="give one of a, b"):
        endpoint.metric_invocations()
    with pytest.raises(ValueError, match="'c' is none of a, b"):
        endpoint.metric_invocations("c")
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "caller", env=HERE)
    with pytest.raises(ValueError, match="give its name"):
        own.ModelEndpoint.from_endpoint_name(stack, "Other", "other").metric_invocations()


def test_scaling_takes_over_the_number_of_instances() -> None:
    pair = Pair()
    pair.scale("a")
    pair.scale("b")
    config = pair.config
    (production,), (shadow,) = config["ProductionVariants"], config["ShadowProductionVariants"]
    assert [each["InitialInstanceCount"] for each in (production, shadow)] == [1, 1]
    with pytest.raises(ValueError, match="variant: 'c' is none of a, b"):
        pair.scale("c")
    late = Pair()
    own.EndpointRollout(
        late.stack, "Rollout", endpoint=late.endpoint, alarms=own.Alarms(),
        rollout=own.Rollout(strategy="all_at_once"),
    )  # fmt: skip
    late.scale("a")
    # At least one starts, and the shadow that nothing scales runs its minimum.
    config = late.config
    assert [
        each["InitialInstanceCount"]
        for each in (*config["ProductionVariants"], *config["ShadowProductionVariants"])
    ] == [1, 2]
    assert [each.name for each in late.endpoint.variants] == ["a", "b"]


def test_a_model_without_a_placement_needs_the_type_of_its_instances(
    environment: Environment,
) -> None:
    (model,) = [
        each for each in stack_of(environment).node.find_all() if isinstance(each, own.ServedModel)
    ]
    with pytest.raises(ValueError, match="InstanceVariant a: give its instance_type"):
        own.InstanceVariant(name="a", model=model)
    assert own.InstanceVariant(name="a", model=model, instance_type="ml.c5.xlarge").capacity == (
        1,
        1,
    )


def test_a_finding_is_said_at_the_construct_that_it_is_about() -> None:
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE)
    logs = own.EndpointLogs(stack, "Logs", endpoint_name="search")
    model = own.packed_model(
        stack, "Model", name="ranker", folder=RANKER, instance_type="ml.c5.xlarge", logs=logs,
        tensorflow="2.19",
    )  # fmt: skip
    variant = own.InstanceVariant(name="a", model=model, min_instances=2, max_instances=3)
    endpoint = own.ModelEndpoint(
        stack, "Endpoint", name="search", variants=[variant], production=True,
        acknowledge={"rollout-share-below-instance": "one of two is enough"},
    )  # fmt: skip
    scaling = own.Scaling(
        max_rps_per_instance=10, scale_out_cooldown_seconds=3600, scale_in_cooldown_seconds=10
    )
    alarms = own.Alarms(window_minutes=20)
    own.EndpointScaling(stack, "Scaling", endpoint=endpoint, variant="a", scaling=scaling)
    own.EndpointRollout(
        stack, "Rollout", endpoint=endpoint, alarms=alarms,
        rollout=own.Rollout(strategy="canary", bake_minutes=2),
    )  # fmt: skip
    made = own.EndpointAlarms(
        stack, "Alarms", endpoint=endpoint, alarms=alarms, inform=sns.Topic(stack, "Topic")
    )
    found = Annotations.from_stack(stack)
    every = (found.find_error("*", Match.any_value()), found.find_warning("*", Match.any_value()))
    errors, warnings = (
        sorted((each.id, str(each.entry.data).partition(": ")[0]) for each in entries)
        for entries in every
    )
    assert errors == [("/search/Rollout", "rollout.bake_minutes")]
    assert warnings == [
        ("/search/Alarms", "alarms.p99_latency_ms"),
        ("/search/Model", "ranker"),
        ("/search/Scaling", "a"),
    ]
    by_kind = [made.of("a", "5xx"), made.of(None, "queue-refused"), made.of("a", "none")]
    assert [each and each.signal.name for each in by_kind] == ["a-5xx", "queue-refused", None]
