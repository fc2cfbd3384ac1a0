"""An endpoint in a stack of one's own: true counts, grants, metrics, tokens, and the checks."""

import re
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns

from infra.catalog.metrics import UnpublishedMetricError
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from servable.constructs import (
    Endpoint,
    Environment,
    EnvironmentFileError,
    Model,
    ModelNetwork,
    Network,
    Rollout,
    Scaling,
)
from tests.conftest import RANKER, VALID
from tests.constructs.conftest import HERE, Own, Synthesised, own_stack

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"


def test_a_fleet_begins_with_its_minimum_and_is_told_that_nothing_scales_it() -> None:
    own = Own.with_variant(min_instances=2, max_instances=4)
    assert own.variants[0]["InitialInstanceCount"] == 2
    told = [path for path, said in own.annotations("warning") if "max_instances" in said]
    assert told == ["/search/Endpoint"]

    own = Own()
    own.add(min_instances=2, max_instances=4).auto_scale(settings=Scaling(hold=True))
    assert own.variants[0]["InitialInstanceCount"] == 1
    assert own.synthesised.all(TARGET) == []


def test_a_different_maximum_changes_the_scalable_target_alone() -> None:
    templates = []
    for most in (4, 6):
        own = Own()
        own.add(min_instances=2, max_instances=most).auto_scale(max_rps_per_instance=100)
        templates.append(own.synthesised.template["Resources"])
    before, after = templates
    changed = [before[name]["Type"] for name in before if before[name] != after[name]]
    assert changed == [TARGET]


@pytest.mark.long
def test_the_order_of_calls_does_not_change_the_template() -> None:
    templates = []
    for forwards in (True, False):
        own, topic = Own(), None
        topic = sns.Topic(own.stack, "Topic")

        def add_scaled(own: Own = own) -> None:
            own.add("b", max_instances=4).auto_scale(max_rps_per_instance=50)

        def add_plain(own: Own = own) -> None:
            own.add("a", instance_type="ml.m5.large")

        def add_alarms(own: Own = own, topic: sns.Topic = topic) -> None:
            own.endpoint.add_alarms(p99_latency_ms=80, notify=topic)

        def roll_out(own: Own = own) -> None:
            own.endpoint.roll_out(canary_percent=50)

        calls = (add_scaled, add_plain, add_alarms, roll_out, own.endpoint.add_dashboard)
        for number in range(5) if forwards else reversed(range(5)):
            calls[number]()
        templates.append(own.synthesised.template)
    assert templates[0] == templates[1]
    kinds = {each["Type"] for each in templates[0]["Resources"].values()}
    assert {"AWS::CloudWatch::Dashboard", "AWS::CloudWatch::CompositeAlarm"} <= kinds


def test_scaling_starts_a_fleet_whatever_its_minimum_and_only_that_of_its_variant() -> None:
    # At least one starts, and the shadow that nothing scales runs its minimum.
    for scaled, counts in [("ab", [1, 1]), ("a", [1, 2])]:
        own = Own()
        added = {
            "a": own.add("a", min_instances=0, max_instances=4),
            "b": own.add("b", shadow=True, min_instances=2),
        }
        for name in scaled:
            added[name].auto_scale(max_rps_per_instance=10)
        assert [each["InitialInstanceCount"] for each in own.variants] == counts
    with pytest.raises(ValueError, match="variant: 'c' doesn't exist; use one of a, b"):
        own.endpoint.find_variant("c")


def test_variants_are_listed_by_name_or_in_the_deployed_order() -> None:
    for order, names in [(None, ["a", "b"]), (["b", "a"], ["b", "a"])]:
        own = Own(endpoint={"variant_order": order})
        for name in ("b", "a"):
            own.add(name)
        assert [each["VariantName"] for each in own.variants] == names


def test_a_model_of_a_different_stack_has_its_permissions_in_the_stack_of_the_endpoint() -> None:
    app = cdk.App()
    models, stack = cdk.Stack(app, "models", env=HERE), cdk.Stack(app, "search", env=HERE)
    endpoint = Endpoint(stack, "Endpoint", endpoint_name="search")
    model = Model.from_saved_model(models, "Model", RANKER)
    endpoint.add_variant("primary", model, instance_type="ml.c5.xlarge")
    found = Synthesised.of(stack)
    assert "logs:PutLogEvents" in str(found.one("AWS::IAM::Policy"))
    assert len(found.all("AWS::SageMaker::Model")) == 1
    assert len(Synthesised.of(models).all("AWS::IAM::Role")) == 1


def test_a_region_looks_its_image_up_and_one_without_it_is_an_error() -> None:
    own = Own(stack=own_stack(env=None))
    own.add()
    model = own.synthesised.one("AWS::SageMaker::Model")
    assert "Fn::FindInMap" in str(model["PrimaryContainer"]["Image"])
    mars = own_stack(env=cdk.Environment(account="111111111111", region="mars-west-1"))
    own = Own(stack=mars)
    own.add()
    said = r"env: TensorFlow .* no image in the region mars-west-1; set .*eu-west-1"
    with pytest.raises(ValueError, match=said):
        own.endpoint.create()


@pytest.mark.long
def test_a_model_in_a_vpc_is_in_private_subnets_and_opens_what_it_may_reach() -> None:
    vpc = ec2.Vpc(stack := own_stack(), "Vpc", max_azs=2)
    own = Own(stack=stack, network=ModelNetwork(vpc=vpc))
    own.add()
    store = ec2.SecurityGroup(stack, "Store", vpc=vpc, allow_all_outbound=False)
    own.model.connections.allow_to(store, ec2.Port.tcp(6379))
    found = own.synthesised
    subnets = found.one("AWS::SageMaker::Model")["VpcConfig"]["Subnets"]
    assert [each["Ref"].startswith("VpcPrivateSubnet") for each in subnets] == [True, True]
    assert found.one("AWS::EC2::SecurityGroupIngress")["FromPort"] == 6379
    with pytest.raises(ValueError, match=r"pass .*network=ModelNetwork\(vpc=…\)"):
        _ = Own.with_variant().endpoint.connections

    split = cdk.Fn.split(",", cdk.Fn.import_value("subnets"))
    groups = [cdk.Fn.import_value("group")]
    own = Own(network=Network(subnets=split, security_groups=groups))
    own.add()
    model = own.synthesised.one("AWS::SageMaker::Model")
    assert model["VpcConfig"]["Subnets"] == {"Fn::Split": [",", {"Fn::ImportValue": "subnets"}]}


def test_an_existing_role_gets_the_permissions_unless_it_is_immutable() -> None:
    stack = own_stack("roles")
    arn = "arn:aws:iam::111111111111:role/data-science"
    for role, granted in [
        (iam.Role.from_role_name(stack, "Given", "data-science"), [["data-science"]]),
        (iam.Role.from_role_arn(stack, "Immutable", arn, mutable=False), []),
    ]:
        own = Own(role=role)
        own.add()
        assert [policy["Roles"] for policy in own.synthesised.all("AWS::IAM::Policy")] == granted


def test_wildcards_for_the_network_of_another_stack_are_accepted_by_its_exports() -> None:
    app = cdk.App()
    stack, network = (cdk.Stack(app, name, env=HERE) for name in ("search", "network"))
    own = Own(stack=stack, network=ModelNetwork(vpc=ec2.Vpc(network, "Vpc", max_azs=2)))
    own.add()
    assert own.synthesised
    assert own.model.execution is not None
    policy = own.model.execution.add_policy(own.model, own.model.pack(stack))
    accepted = str([entry.data for entry in policy.node.metadata])
    assert accepted.count(":subnet/network:ExportsOutputRef") == 2


def test_an_imported_endpoint_needs_its_variants_for_alarms_and_its_kind_for_grants() -> None:
    stack = own_stack("caller")
    other = Endpoint.from_endpoint_name(stack, "Other", "other")
    topic = sns.Topic(stack, "Topic")
    with pytest.raises(ValueError, match="variants of endpoint other are unknown; import it with "):
        other.add_alarms(notify=topic)

    known = Endpoint.from_endpoint_attributes(
        stack, "Known", endpoint_name="known", kind="asynchronous", variants=["a"]
    )
    known.add_alarms(notify=topic)
    lambdas = iam.ServicePrincipal("lambda.amazonaws.com")
    known.grant_invoke(iam.Role(stack, "Role", assumed_by=lambdas))
    found = Synthesised.of(stack)
    assert "sagemaker:InvokeEndpointAsync" in str(found.one("AWS::IAM::Policy"))
    assert "known-a-cpu" in [each["AlarmName"] for each in found.all("AWS::CloudWatch::Alarm")]
    said = "kind: 'batch' isn't a kind of endpoint; use one of real_time"
    with pytest.raises(ValueError, match=said):
        Endpoint.from_endpoint_attributes(stack, "Odd", endpoint_name="odd", kind="batch")


def test_a_metric_is_of_the_only_variant_and_of_the_region_in_the_endpoints_arn() -> None:
    metric = Own.with_variant().endpoint.metric_model_latency(statistic="p50")
    of_variant = {"EndpointName": "search", "VariantName": "primary"}
    assert (metric.dimensions, metric.statistic) == (of_variant, "p50")

    stack, arn = own_stack("caller"), "arn:aws:sagemaker:us-west-2:222222222222:endpoint/other"
    metric = Endpoint.from_endpoint_arn(stack, "Other", arn).metric_invocations("primary")
    assert (metric.region, metric.account) == ("us-west-2", "222222222222")

    imported = Endpoint.from_endpoint_arn(stack, "Imported", cdk.Fn.import_value("arn"))
    metric = imported.metric_invocations("primary")
    metric.create_alarm(stack, "Busy", threshold=1, evaluation_periods=1)
    assert (metric.region, metric.account) == (None, None)


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


def test_a_metric_has_the_name_and_statistic_that_it_promises_and_needs_a_variant() -> None:
    other = Endpoint.from_endpoint_name(own_stack("caller"), "Other", "other")
    for name, expected in METRICS.items():
        metric = getattr(other, f"metric_{name}")
        made = metric("primary")
        assert (made.metric_name, made.statistic, made.period.to_seconds()) == (*expected, 60)
        assert made.dimensions == {"EndpointName": "other", "VariantName": "primary"}
        made = metric("primary", label="shown", period=cdk.Duration.minutes(5))
        assert (made.label, made.period.to_seconds()) == ("shown", 300)
    with pytest.raises(ValueError, match="pass its name"):
        other.metric_invocations()

    own = Own()
    for name in ("a", "b"):
        own.add(name)
    assert (own.endpoint.metric_invocations("b").dimensions or {})["VariantName"] == "b"
    with pytest.raises(ValueError, match="pass one of a, b"):
        own.endpoint.metric_invocations()
    with pytest.raises(ValueError, match="'c' doesn't exist; use one of a, b"):
        own.endpoint.metric_invocations("c")


def test_a_metric_that_no_endpoint_publishes_is_refused() -> None:
    endpoint = Own.with_variant().endpoint
    with pytest.raises(UnpublishedMetricError):
        endpoint.metric("ModelLatency", variant="primary", statistic="p99.99x")
    said = "no endpoint has a metric Latency; .*ModelLat"
    with pytest.raises(UnpublishedMetricError, match=said):
        endpoint.metric("Latency")
    component = WatchedVariant(name="ranker", component="search-ranker")
    watched = WatchedEndpoint(name="search", region="eu-west-1", variants=(component,))
    of_component = {"InferenceComponentName": "search-ranker"}
    assert watched.build_metric("Invocations", "ranker", "Sum").dimensions == of_component
    with pytest.raises(UnpublishedMetricError):
        watched.build_metric("ModelLatency", "ranker", "p99.99x")


def test_what_check_knows_is_an_error_at_the_construct_in_the_words_of_the_app() -> None:
    own = Own.with_variant(min_instances=0)
    own.endpoint.roll_out(settings=Rollout(strategy="canary", bake_minutes=2))
    errors = own.annotations("error")
    zero = r"primary: min_instances: .*0 with Endpoint\(async_inference=…\) and auto_scale"
    assert [path for path, said in errors if re.match(zero, said)] == ["/search/Endpoint"]
    rollout = [path for path, said in errors if said.startswith("roll_out: bake")]
    assert rollout == ["/search/Endpoint/Rollout"]
    of_files = r"\[(variants|models|scaling)|(variants|models)\."
    every = [said for _, said in (*errors, *own.annotations("warning"))]
    assert [said for said in every if re.search(of_files, said)] == []


def test_a_finding_is_said_at_the_construct_that_it_is_about() -> None:
    accepted = {"rollout-share-below-instance": "one of two is enough"}
    endpoint = {"production": True, "acknowledge": accepted}
    own = Own(model_name="ranker", tensorflow="2.19", endpoint=endpoint)
    scaling = Scaling(
        max_rps_per_instance=10, scale_out_cooldown_seconds=3600, scale_in_cooldown_seconds=10
    )
    variant = own.add("a", min_instances=2, max_instances=3)
    variant.auto_scale(settings=scaling, construct_id="Scaling")
    rollout = Rollout(strategy="canary", bake_minutes=2)
    own.endpoint.roll_out(settings=rollout, construct_id="Rollout")
    topic = sns.Topic(own.stack, "Topic")
    own.endpoint.add_alarms(window_minutes=20, notify=topic, construct_id="Alarms")
    errors, warnings = (
        sorted((path, said.partition(": ")[0]) for path, said in own.annotations(level))
        for level in ("error", "warning")
    )
    assert errors == [("/search/Rollout", "roll_out")]
    about = {"Alarms": "add_alarms", "Model": "ranker", "Scaling": "a"}
    assert warnings == [(f"/search/{name}", said) for name, said in about.items()]
    alarms = own.endpoint.alarms
    by_name = [alarms.of("a", "5xx"), alarms.of(None, "queue-refused"), alarms.of("a", "none")]
    assert [each and each.signal.name for each in by_name] == ["a-5xx", "queue-refused", None]


# As the CLI gives them: the last two keys are the app's own, and an override that is read.
CONTEXT = {"staging.endpoint.name": "other", "acme.flag": True, "prod.tags.acme:owner": "me"}


@pytest.mark.long
def test_an_override_is_read_by_its_environment_or_an_error_without_one(tmp_path: Path) -> None:
    for name in ("prod", "staging"):
        text = VALID.replace('"ranker"', f'"{name}"', 1).replace('"model"', f'"{RANKER}"')
        (tmp_path / f"{name}.toml").write_text(text)

    app = cdk.App(context=CONTEXT)
    prod = Environment(app, "prod", file=tmp_path / "prod.toml")
    with pytest.raises(RuntimeError, match=r"-c staging.endpoint.name: there is no environment"):
        app.synth()
    assert prod.endpoint_stack.tags.tag_values()["acme:owner"] == "me"

    app = cdk.App(context=CONTEXT)
    Environment(app, "prod", file=tmp_path / "prod.toml")
    staging = Environment(app, "staging", file=tmp_path / "staging.toml")
    app.synth()
    assert staging.endpoint.name == "other"


def test_a_refused_environment_file_says_everything(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    file = tmp_path / "environments" / "prod.toml"
    file.write_text('account = "1"\nregion = "eu-west-1"\n')
    with pytest.raises(EnvironmentFileError, match=r"(?s)prod.toml is rejected.*account.*endpoint"):
        Environment(cdk.App(), "prod", file=file)
