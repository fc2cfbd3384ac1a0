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
from tests.constructs import own_constructs

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

    def __init__(self) -> None:
        self.stack = cdk.Stack(
            cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE
        )
        self.model = own.Model.from_saved_model(self.stack, "Model", RANKER)
        self.endpoint = own.Endpoint(self.stack, "Endpoint", endpoint_name="search")
        kind = "ml.c5.xlarge"
        self.a = self.endpoint.add_variant(
            "a", self.model, instance_type=kind, min_instances=0, max_instances=4
        )
        self.b = self.endpoint.add_variant(
            "b", self.model, instance_type=kind, shadow=True, min_instances=2
        )

    @property
    def config(self) -> dict[str, Any]:
        found = Template.from_stack(self.stack).find_resources("AWS::SageMaker::EndpointConfig")
        (resource,) = found.values()
        return dict(resource["Properties"])


def test_a_metric_is_the_one_of_its_name_with_the_statistic_that_it_promises() -> None:
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "caller", env=HERE)
    other = own.Endpoint.from_endpoint_name(stack, "Other", "other")
    for name, expected in METRICS.items():
        metric = getattr(other, f"metric_{name}")
        made = metric("primary")
        assert (made.metric_name, made.statistic) == expected
        assert made.period.to_seconds() == 60
        assert made.dimensions == {"EndpointName": "other", "VariantName": "primary"}
        other_way = metric("primary", label="shown", period=cdk.Duration.minutes(5))
        assert (other_way.label, other_way.period.to_seconds()) == ("shown", 300)
    with pytest.raises(ValueError, match="pass its name"):
        other.metric_invocations()


def test_a_metric_of_several_variants_needs_a_name_that_there_is() -> None:
    endpoint = Pair().endpoint
    assert (endpoint.metric_invocations("b").dimensions or {})["VariantName"] == "b"
    with pytest.raises(ValueError, match="pass one of a, b"):
        endpoint.metric_invocations()
    with pytest.raises(ValueError, match="'c' doesn't exist; use one of a, b"):
        endpoint.metric_invocations("c")


def test_scaling_takes_over_the_number_of_instances() -> None:
    pair = Pair()
    pair.a.auto_scale(max_rps_per_instance=10)
    pair.b.auto_scale(max_rps_per_instance=10)
    config = pair.config
    (production,), (shadow,) = config["ProductionVariants"], config["ShadowProductionVariants"]
    assert [each["InitialInstanceCount"] for each in (production, shadow)] == [1, 1]
    with pytest.raises(ValueError, match="variant: 'c' doesn't exist; use one of a, b"):
        pair.endpoint.find_variant("c")
    one = Pair()
    one.a.auto_scale(max_rps_per_instance=10)
    # At least one starts, and the shadow that nothing scales runs its minimum.
    config = one.config
    assert [
        each["InitialInstanceCount"]
        for each in (*config["ProductionVariants"], *config["ShadowProductionVariants"])
    ] == [1, 2]


def test_variants_are_listed_by_name_or_in_the_deployed_order() -> None:
    names = []
    for order in (None, ["b", "a"]):
        stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE)
        model = own.Model.from_saved_model(stack, "Model", RANKER)
        endpoint = own.Endpoint(stack, "Endpoint", endpoint_name="search", variant_order=order)
        for name in ("b", "a"):
            endpoint.add_variant(name, model, instance_type="ml.c5.xlarge")
        (config,) = (
            Template.from_stack(stack).find_resources("AWS::SageMaker::EndpointConfig").values()
        )
        names.append([each["VariantName"] for each in config["Properties"]["ProductionVariants"]])
    assert names == [["a", "b"], ["b", "a"]]


def test_a_finding_is_said_at_the_construct_that_it_is_about() -> None:
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE)
    model = own.Model.from_saved_model(
        stack, "Model", RANKER, model_name="ranker", tensorflow="2.19"
    )
    endpoint = own.Endpoint(
        stack, "Endpoint", endpoint_name="search", production=True,
        acknowledge={"rollout-share-below-instance": "one of two is enough"},
    )  # fmt: skip
    variant = endpoint.add_variant(
        "a", model, instance_type="ml.c5.xlarge", min_instances=2, max_instances=3
    )
    variant.auto_scale(
        settings=own.Scaling(
            max_rps_per_instance=10, scale_out_cooldown_seconds=3600, scale_in_cooldown_seconds=10
        ),
        construct_id="Scaling",
    )
    endpoint.roll_out(
        settings=own.Rollout(strategy="canary", bake_minutes=2), construct_id="Rollout"
    )
    endpoint.add_alarms(window_minutes=20, notify=sns.Topic(stack, "Topic"), construct_id="Alarms")
    found = Annotations.from_stack(stack)
    every = (found.find_error("*", Match.any_value()), found.find_warning("*", Match.any_value()))
    errors, warnings = (
        sorted((each.id, str(each.entry.data).partition(": ")[0]) for each in entries)
        for entries in every
    )
    assert errors == [("/search/Rollout", "roll_out")]
    assert warnings == [
        ("/search/Alarms", "add_alarms"),
        ("/search/Model", "ranker"),
        ("/search/Scaling", "a"),
    ]
    by_name = [
        endpoint.alarms.of("a", "5xx"), endpoint.alarms.of(None, "queue-refused"),
        endpoint.alarms.of("a", "none"),
    ]  # fmt: skip
    assert [each and each.signal.name for each in by_name] == ["a-5xx", "queue-refused", None]
