"""Constructs in a stack of one's own: true counts, grants, metrics, tokens, and the checks."""

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template

from infra.catalog.metrics import UnpublishedMetricError
from model_packaging.refusal import PackagingError
from servable.constructs import (
    Alarms,
    Capture,
    CaptureStore,
    EndpointAlarms,
    EndpointLogs,
    EndpointRollout,
    EndpointScaling,
    Environment,
    EnvironmentFileError,
    InstanceVariant,
    ModelEndpoint,
    Network,
    Rollout,
    Scaling,
    packed_model,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "ranker" / "model"
HERE = cdk.Environment(account="111111111111", region="eu-west-1")


class Own:
    """A stack with an endpoint of one variant."""

    def __init__(self, *, env: cdk.Environment | None = HERE, **variant: Any) -> None:
        names = ("vpc", "network", "role", "volume_key")
        model = {name: variant.pop(name) for name in names if name in variant}
        self.stack = cdk.Stack(cdk.App(), "search", env=env)
        self.logs = EndpointLogs(self.stack, "Logs", endpoint_name="search")
        if model.pop("vpc", False):
            model["vpc"] = ec2.Vpc(self.stack, "Vpc", max_azs=2)
        if model.pop("volume_key", False):
            model["volume_key"] = kms.Key(self.stack, "Key")
        self.model = packed_model(
            self.stack,
            "Model",
            name="ranker",
            folder=str(FOLDER / "1"),
            instance_type="ml.c5.xlarge",
            logs=self.logs,
            **model,
        )
        own = InstanceVariant(**{"name": "primary", "model": self.model, **variant})
        self.endpoint = ModelEndpoint(
            self.stack, "Endpoint", name="search", variants=[own], logs=self.logs
        )

    def scale(self) -> None:
        scaling = Scaling(max_rps_per_instance=100)
        EndpointScaling(
            self.stack, "Scaling", endpoint=self.endpoint, variant="primary", scaling=scaling
        )

    def roll_out(self) -> None:
        rollout = Rollout(strategy="all_at_once")
        EndpointRollout(
            self.stack, "Rollout", endpoint=self.endpoint, rollout=rollout, alarms=Alarms()
        )

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        found = Template.from_stack(self.stack).find_resources(kind)
        return [resource["Properties"] for resource in found.values()]

    @property
    def count(self) -> int:
        (config,) = self.of_type("AWS::SageMaker::EndpointConfig")
        return int(config["ProductionVariants"][0]["InitialInstanceCount"])


def test_a_fleet_begins_with_its_minimum_or_if_it_scales_with_one_instance() -> None:
    assert Own(min_instances=2, max_instances=4).count == 2

    own = Own(min_instances=2, max_instances=4)
    found = Annotations.from_stack(own.stack).find_warning(
        "/search/Endpoint", Match.string_like_regexp("max_instances")
    )
    assert len(found) == 1

    own = Own(min_instances=2, max_instances=4)
    own.scale()
    assert own.count == 1


def test_scaling_changes_its_target_alone_and_keeps_the_configuration_of_a_rollout() -> None:
    four, six = (Own(min_instances=2, max_instances=most) for most in (4, 6))
    four.scale()
    six.scale()
    before, after = (Template.from_stack(own.stack).to_json()["Resources"] for own in (four, six))
    changed = [before[name]["Type"] for name in before if before[name] != after[name]]
    assert changed == ["AWS::ApplicationAutoScaling::ScalableTarget"]

    own = Own(min_instances=2, max_instances=4)
    own.roll_out()
    before = own.endpoint.fingerprint
    own.scale()
    assert (own.count, own.endpoint.fingerprint) == (2, before)

    (endpoint,) = Own(min_instances=2).of_type("AWS::SageMaker::Endpoint")
    excluded = [
        each["VariantPropertyType"] for each in endpoint["ExcludeRetainedVariantProperties"]
    ]
    assert excluded == ["DesiredWeight", "DesiredInstanceCount"]


def test_a_region_looks_its_image_up_and_one_without_it_is_an_error() -> None:
    (model,) = Own(env=None).of_type("AWS::SageMaker::Model")
    assert "Fn::FindInMap" in str(model["PrimaryContainer"]["Image"])
    with pytest.raises(
        ValueError, match=r"region: no image .* in mars-west-1; allowed: .*eu-west-1"
    ):
        Own(env=cdk.Environment(account="111111111111", region="mars-west-1"))


def test_a_model_in_a_vpc_is_in_private_subnets_and_opens_what_it_may_reach() -> None:
    (model,) = Own(vpc=True).of_type("AWS::SageMaker::Model")
    refs = [subnet["Ref"] for subnet in model["VpcConfig"]["Subnets"]]
    assert [ref.startswith("VpcPrivateSubnet") for ref in refs] == [True, True]

    own = Own(vpc=True)
    store = ec2.SecurityGroup(
        own.stack, "Store", vpc=own.stack.node.find_child("Vpc"), allow_all_outbound=False
    )
    own.model.connections.allow_to(store, ec2.Port.tcp(6379))
    (rule,) = own.of_type("AWS::EC2::SecurityGroupIngress")
    assert rule["FromPort"] == 6379
    with pytest.raises(ValueError, match="give packed_model a vpc"):
        _ = Own().endpoint.connections

    subnets = cdk.Fn.split(",", cdk.Fn.import_value("subnets"))
    groups = [cdk.Fn.import_value("group")]
    own = Own(network=Network(subnets=subnets, security_groups=groups))
    (model,) = own.of_type("AWS::SageMaker::Model")
    assert model["VpcConfig"]["Subnets"] == {"Fn::Split": [",", {"Fn::ImportValue": "subnets"}]}


def test_an_existing_role_gets_the_permissions_unless_it_is_immutable() -> None:
    stack = cdk.Stack(cdk.App(), "roles", env=HERE)
    role = iam.Role.from_role_name(stack, "Given", "data-science")
    (policy,) = Own(role=role).of_type("AWS::IAM::Policy")
    assert policy["Roles"] == ["data-science"]

    stack = cdk.Stack(cdk.App(), "roles", env=HERE)
    arn = "arn:aws:iam::111111111111:role/data-science"
    role = iam.Role.from_role_arn(stack, "Given", arn, mutable=False)
    assert Own(role=role).of_type("AWS::IAM::Policy") == []

    (policy,) = Own(volume_key=True).of_type("AWS::IAM::Policy")
    (resource,) = [
        statement["Resource"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "kms:CreateGrant"
    ]
    assert [*resource] == ["Fn::GetAtt"]


def test_wildcards_for_the_network_of_another_stack_are_accepted_by_its_exports() -> None:
    own = Own()
    network = cdk.Stack(cdk.App.of(own.stack), "network", env=HERE)
    model = packed_model(
        own.stack,
        "Other",
        name="ranker",
        folder=FOLDER,
        instance_type="ml.c5.xlarge",
        logs=own.logs,
        vpc=ec2.Vpc(network, "Vpc", max_azs=2),
    )
    Template.from_stack(own.stack)
    assert model.execution is not None
    accepted = str([entry.data for entry in model.execution.policy.node.metadata])
    assert accepted.count(":subnet/network:ExportsOutputRef") == 2


def test_an_imported_endpoint_grants_its_invocation_and_needs_its_variants_for_alarms() -> None:
    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    ModelEndpoint.from_endpoint_name(stack, "Other", "other").grant_invoke(role)
    Template.from_stack(stack).has_resource_properties(
        "AWS::IAM::Policy",
        {"PolicyDocument": {"Statement": [{"Action": "sagemaker:InvokeEndpoint"}]}},
    )

    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    other = ModelEndpoint.from_endpoint_name(stack, "Other", "other")
    topic = sns.Topic(stack, "Topic")
    with pytest.raises(ValueError, match="variants of endpoint other are unknown; give"):
        EndpointAlarms(stack, "Alarms", endpoint=other, alarms=Alarms(), inform=topic)


def test_a_metric_is_of_the_only_variant_and_of_the_region_in_the_endpoints_arn() -> None:
    metric = Own().endpoint.metric_model_latency(statistic="p50")
    assert (metric.dimensions, metric.statistic) == (
        {"EndpointName": "search", "VariantName": "primary"},
        "p50",
    )

    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    arn = "arn:aws:sagemaker:us-west-2:222222222222:endpoint/other"
    other = ModelEndpoint.from_endpoint_arn(stack, "Other", arn)
    metric = other.metric_invocations("primary")
    assert (metric.region, metric.account) == ("us-west-2", "222222222222")

    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    other = ModelEndpoint.from_endpoint_arn(stack, "Other", cdk.Fn.import_value("arn"))
    metric = other.metric_invocations("primary")
    metric.create_alarm(stack, "Busy", threshold=1, evaluation_periods=1)
    assert (metric.region, metric.account) == (None, None)


def test_a_metric_that_no_endpoint_publishes_is_refused() -> None:
    with pytest.raises(UnpublishedMetricError):
        Own().endpoint.metric("ModelLatency", variant="primary", statistic="p99.99x")
    with pytest.raises(
        UnpublishedMetricError, match="no endpoint has a metric Latency; .*ModelLat"
    ):
        Own().endpoint.metric("Latency")


def test_captured_samples_need_no_feature_flag() -> None:
    stack = cdk.Stack(cdk.App(), "store")
    CaptureStore(stack, "Captured", capture=Capture())
    assert len(Template.from_stack(stack).find_resources("AWS::S3::Bucket")) == 2


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"min_instances": 3, "max_instances": 2}, "/search/Endpoint", "primary: .*max_instances"),
        ({"instance_type": "ml.c5.xxlarge"}, "/search/Endpoint", "instance_type"),
        ({"volume_gb": 100_000}, "/search/Endpoint", "volume_gb"),
        ({"name": "pri mary"}, "/search/Endpoint", "^pri mary: name: "),
    ],
    ids=["bounds", "type", "size", "name"],
)
def test_what_check_knows_is_an_error_at_the_construct(
    given: dict[str, Any], path: str, said: str
) -> None:
    try:
        own = Own(**given)
    except KeyError:
        pytest.fail("it ended in a KeyError")
    found = Annotations.from_stack(own.stack).find_error(path, Match.string_like_regexp(said))
    assert len(found) >= 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"instance_type": "ml.c5.xlrge"}, "'ml.c5.xlrge' is no instance type; did you mean ml.c5"),
        ({"instance_type": cdk.Fn.import_value("type")}, "instance_type: .*give the type"),
        ({"handler": "servble"}, "^handler: 'servble': Input should be 'servable'$"),
        ({"name": "a b"}, "^name: 'a b': [^;]*$"),
        ({"environment": {"A": 1}}, "^environment: 1: "),
        ({"version": 7}, "^version: .*leave it out"),
        ({"vpc": True, "network": Network()}, "^network: .*give one of the two"),
    ],
    ids=["type", "token", "handler", "name", "variable", "version", "network"],
)
def test_an_argument_that_does_not_fit_is_named_with_what_would(
    given: dict[str, Any], said: str
) -> None:
    stack = cdk.Stack(cdk.App(), "search", env=HERE)
    logs = EndpointLogs(stack, "Logs", endpoint_name="search")
    if "vpc" in given:
        given = {**given, "vpc": ec2.Vpc(stack, "Vpc")}
    fits = {"name": "ranker", "folder": FOLDER, "instance_type": "ml.c5.xlarge", "logs": logs}
    with pytest.raises(ValueError, match=said):
        packed_model(stack, "M", **{**fits, **given})


def test_a_warm_up_that_is_one_path_is_that_file() -> None:
    stack = cdk.Stack(cdk.App(), "search", env=HERE)
    logs = EndpointLogs(stack, "Logs", endpoint_name="search")
    with pytest.raises(PackagingError, match="none.json: cannot be read"):
        packed_model(
            *(stack, "M"), name="ranker", folder=FOLDER, instance_type="ml.c5.xlarge", logs=logs,
            warm_up="none.json",
        )  # fmt: skip


def test_a_count_that_only_cloudformation_knows_is_refused() -> None:
    own = Own()
    count = cdk.CfnParameter(own.stack, "Count", type="Number").value_as_number
    with pytest.raises(ValueError, match="primary: min_instances: .*give a number"):
        InstanceVariant(name="primary", model=own.model, min_instances=count)  # type: ignore[arg-type]


def test_an_endpoint_waits_for_its_own_log_group_and_names_each_variant_once() -> None:
    own = Own()
    ModelEndpoint(
        own.stack, "Bare", name="search", variants=[InstanceVariant(name="a", model=own.model)]
    )
    endpoints = Template.from_stack(own.stack).find_resources("AWS::SageMaker::Endpoint")
    before = [name for name in endpoints if name.startswith("Bare")]
    assert [
        any(name.startswith("Logs") for name in endpoints[each].get("DependsOn", []))
        for each in before
    ] == [True]

    own = Own()
    variant = InstanceVariant(name="primary", model=own.model)
    with pytest.raises(ValueError, match="/Logs is the log group of 'search'"):
        ModelEndpoint(own.stack, "Other", name="other", variants=[variant])

    own = Own()
    twice = [InstanceVariant(name="primary", model=own.model) for _ in range(2)]
    with pytest.raises(ValueError, match="search/Other: variants have one name"):
        ModelEndpoint(own.stack, "Other", name="search", variants=twice)


def test_a_refused_environment_file_says_everything(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    file = tmp_path / "environments" / "prod.toml"
    file.write_text('account = "1"\nregion = "eu-west-1"\n')
    with pytest.raises(EnvironmentFileError, match=r"(?s)prod.toml is refused.*account.*endpoint"):
        Environment(cdk.App(), "prod", file=file)
