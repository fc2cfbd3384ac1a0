"""An app's template has every property of a file, and those that it lacks; CDK takes what we create."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns

from servable import constructs as own
from tests.conftest import RANKER
from tests.constructs import own_constructs
from tests.constructs.conftest import Own, Synthesised, own_stack

TYPE = "ml.c5.xlarge"
Config = sagemaker.CfnEndpointConfig
SHA256 = "0123456789abcdef" * 4
LAMBDA = iam.ServicePrincipal("lambda.amazonaws.com")
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
def resources() -> dict[str, Any]:
    stack = own_stack("full")
    own_constructs.full(stack, "full")
    return dict(Synthesised.of(stack).template["Resources"])


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


def test_routing_shells_core_dumps_and_reservations_are_settings_of_a_variant() -> None:
    reservation = "arn:aws:sagemaker:eu-west-1:111111111111:training-plan/ranker"
    app = Own.with_variant(
        settings=own.VariantSettings(
            routing="random",
            ssm_access=True,
            core_dumps=own.CoreDumps(uri="s3://dumps/search/"),
            startup_timeout_seconds=600,
        ),
        capacity_reservation=Config.CapacityReservationConfigProperty(
            capacity_reservation_preference="capacity-reservations-only",
            ml_reservation_arn=reservation,
        ),
    )
    (made,) = app.variants
    assert made["RoutingConfig"] == {"RoutingStrategy": "RANDOM"}
    assert made["EnableSSMAccess"] is True
    assert made["CoreDumpConfig"]["DestinationS3Uri"] == "s3://dumps/search/"
    assert made["ContainerStartupHealthCheckTimeoutInSeconds"] == 600
    assert made["CapacityReservationConfig"]["MlReservationArn"] == reservation


def test_a_variant_is_serverless_or_has_instance_pools_that_one_ami_fits() -> None:
    serverless = own.VariantSettings(serverless=own.Serverless(memory_mib=2048, max_concurrency=5))
    (made,) = Own.with_variant(instance_type=None, settings=serverless).variants
    assert made["ServerlessConfig"] == {"MaxConcurrency": 5, "MemorySizeInMB": 2048}

    def add_pools(*types: str) -> Own:
        pools = [own.InstancePool(instance_type=kind) for kind in types]
        settings = own.VariantSettings(instance_pools=pools)
        return Own.with_variant(instance_type=None, settings=settings)

    app = add_pools("ml.g5.12xlarge", "ml.g5.xlarge")
    types = [each["InstanceType"] for each in app.variants[0]["InstancePools"]]
    assert types == ["ml.g5.12xlarge", "ml.g5.xlarge"]
    # Four GPUs need different settings than one, and both models have one role.
    assert len(app.synthesised.all("AWS::SageMaker::Model")) == 2
    assert len(app.synthesised.all("AWS::IAM::Role")) == 1

    app = add_pools("ml.g5.xlarge", "ml.c5.xlarge")
    said = "instance_pools: no AMI supports all of .*; pass types of"
    with pytest.raises(ValueError, match=said):
        app.endpoint.create()


def test_managed_instances_have_a_scale_in_policy() -> None:
    app = Own()
    primary = app.endpoint.add_variant(
        "primary",
        instance_type="ml.c6i.2xlarge",
        max_instances=2,
        scale_in_policy=Config.ScaleInPolicyProperty(
            strategy="IDLE_RELEASE", cooldown_in_minutes=30
        ),
    )
    primary.add_component("ranker", app.model, max_copies=2)
    primary.add_property_override("AcceleratorType", "ml.eia2.medium")
    (made,) = app.variants
    assert made["AcceleratorType"] == "ml.eia2.medium"
    scaling = made["ManagedInstanceScaling"]
    assert scaling["ScaleInPolicy"] == {"Strategy": "IDLE_RELEASE", "CooldownInMinutes": 30}
    assert (scaling["MinInstanceCount"], scaling["MaxInstanceCount"]) == (1, 2)


def served(model: own.Model) -> tuple[dict[str, Any], str]:
    """The container and the policies of a model, when a variant runs it."""
    stack = cdk.Stack.of(model)
    endpoint = own.Endpoint(stack, "Endpoint", endpoint_name="search")
    endpoint.add_variant("a", model, instance_type=TYPE)
    found = Synthesised.of(stack)
    policies = str(found.all("AWS::IAM::Policy"))
    return found.one("AWS::SageMaker::Model")["PrimaryContainer"], policies


@pytest.mark.long
def test_a_model_is_an_archive_or_a_registered_version() -> None:
    container, policies = served(
        own.Model.from_archive(
            own_stack(), "Model", bucket="models", key="run-17/model.tar.gz", sha256=SHA256
        )
    )
    assert container["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"
    assert container["Environment"]["SERVABLE_ARTIFACT_SHA256"] == SHA256
    assert ":s3:::models/run-17/model.tar.gz" in policies

    bucket = s3.Bucket(stack := own_stack(), "Bucket")
    created = own.Model.from_archive(
        stack, "Model", bucket=bucket, key="model.tar.gz", sha256=SHA256
    )
    assert "Bucket" in str(served(created)[0]["ModelDataUrl"])

    arn = "arn:aws:sagemaker:eu-west-1:222222222222:model-package/ranker/3"
    version = own.Model.from_registry(own_stack(), "Model", model_package_arn=arn)
    container, policies = served(version)
    assert container["ModelPackageName"] == arn
    assert "s3:GetObject" not in policies


def test_several_folders_are_a_model_in_multi_model_mode() -> None:
    folders = {"b": RANKER / "1", "a": RANKER / "1"}
    several = own.Model.from_saved_model(own_stack(), "Model", folders)
    assert several.tables["model"].multi_model == ["b", "a"]
    assert served(several)[0]["Mode"] == "MultiModel"
    with pytest.raises(ValueError, match="model_name is also a folder's name; pass"):
        own.Model.from_saved_model(own_stack(), "Model", {"model": RANKER / "1"})


@pytest.mark.long
def test_an_override_changes_its_property_and_the_names_of_the_rollback_alarms() -> None:
    names, properties = [], []
    medium, large = "ml.eia2.medium", "ml.eia2.large"
    # The last one overrides a property of the resource itself.
    for value, of_resource in [(None, False), (medium, False), (large, False), (medium, True)]:
        app = Own()
        app.add("a")
        primary = app.add("b")
        if value and not of_resource:
            primary.add_property_override("AcceleratorType", value)
        app.endpoint.roll_out(canary_percent=50)
        if of_resource:
            resource = app.endpoint.config.node.default_child
            assert isinstance(resource, Config)
            resource.add_property_override("ProductionVariants.1.AcceleratorType", value)
        alarms = app.synthesised.all("AWS::CloudWatch::Alarm")
        names.append(str(sorted(each["AlarmName"] for each in alarms)))
        properties.append([each.get("AcceleratorType") for each in app.variants])
    assert properties == [[None, None], [None, medium], [None, large], [None, medium]]
    assert (len({*names}), names[3]) == (3, names[1])


def test_cdk_takes_an_endpoint_and_a_model_for_its_own_interfaces() -> None:
    vpc = ec2.Vpc(stack := own_stack(), "Vpc", max_azs=2)
    app = Own(stack=stack, network=own.ModelNetwork(vpc=vpc))
    endpoint: sagemaker.IEndpoint = app.endpoint
    assert isinstance(endpoint, own.Endpoint)
    app.add()
    bucket, group = s3.Bucket(stack, "Bucket"), ec2.SecurityGroup(stack, "Db", vpc=vpc)
    bucket.grant_read(app.model)
    group.connections.allow_from(app.model, ec2.Port.tcp(5432))
    endpoint.connections.allow_to(group, ec2.Port.tcp(5433))
    role = iam.Role(stack, "Caller", assumed_by=LAMBDA)
    endpoint.grant_invoke(role)
    assert isinstance(endpoint, cdk.Resource)
    assert ":endpoint/search" in str(stack.resolve(endpoint.endpoint_ref.endpoint_arn))
    rules = app.synthesised.all("AWS::EC2::SecurityGroupIngress")
    assert sorted(rule["FromPort"] for rule in rules) == [5432, 5433]
    other = own.Endpoint.from_endpoint_name(stack, "Other", "other")
    assert other.grant_invoke(role).success


def test_components_are_invoked_by_callers_that_were_granted_before() -> None:
    app = Own()
    app.endpoint.grant_invoke(iam.Role(app.stack, "Caller", assumed_by=LAMBDA))
    primary = app.endpoint.add_variant("primary", instance_type="ml.c6i.2xlarge")
    primary.add_component("ranker", app.model)
    policies = app.synthesised.resources("AWS::IAM::Policy")
    (policy,) = [each for name, each in policies.items() if name.startswith("Caller")]
    assert ":inference-component/search-ranker" in str(policy)


def test_an_argument_and_a_setting_are_one_table() -> None:
    app = Own()
    app.add("a")
    app.endpoint.roll_out(bake_minutes=7, settings=own.Rollout(strategy="linear", step_percent=50))
    settings, topic = own.Alarms(error_5xx_percent=2), sns.Topic(app.stack, "T")
    app.endpoint.add_alarms(notify=topic, p99_latency_ms=80, settings=settings)
    found = app.synthesised
    update = found.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]["BlueGreenUpdatePolicy"]
    routing = update["TrafficRoutingConfiguration"]
    assert (routing["Type"], routing["WaitIntervalInSeconds"]) == ("LINEAR", 420)
    alarms = {each["AlarmName"]: each["Threshold"] for each in found.all("AWS::CloudWatch::Alarm")}
    assert (alarms["search-a-p99-latency"], alarms["search-a-5xx"]) == (80_000, 0.02)


ON_CALL = "arn:aws:sns:eu-west-1:111111111111:on-call"


def topic_of(kind: str, stack: cdk.Stack) -> sns.ITopic:
    if kind == "imported":
        return sns.Topic.from_topic_arn(stack, "OnCall", ON_CALL)
    if kind == "of CDK":
        return sns.Topic(stack, "OnCall")
    key = own.NotificationKey(stack, "Key", given_arn=None).key
    return own.AlarmTopic(stack, "OnCall", notify=["a@example.com"], key=key)


@pytest.mark.parametrize("kind", ["imported", "of CDK", "AlarmTopic"])
def test_any_topic_takes_alarms_and_events(kind: str) -> None:
    app = Own.with_variant()
    topic = topic_of(kind, app.stack)
    own.EndpointAlarms(
        app.stack, "Alarms", endpoint=app.endpoint, alarms=own.Alarms(), inform=topic
    )
    own.EndpointEvents(app.stack, "Events", endpoint_name="search", inform=topic)
    found = app.synthesised
    sent: list[Any] = []
    composite = found.one("AWS::CloudWatch::CompositeAlarm")
    for alarm in (*found.all("AWS::CloudWatch::Alarm"), composite):
        assert alarm["AlarmActions"] == alarm["OKActions"]
        sent += alarm["AlarmActions"]
    for rule in found.all("AWS::Events::Rule"):
        sent += [target["Arn"] for target in rule["Targets"]]
    assert len(sent) > 4
    assert sent == [app.stack.resolve(topic.topic_arn)] * len(sent)


def test_an_alarm_topic_is_a_topic_of_cdk() -> None:
    stack = own_stack()
    key = own.NotificationKey(stack, "Key", given_arn=None).key
    topic = own.AlarmTopic(stack, "Alarms", notify=["a@example.com", "https://b.example"], key=key)
    assert isinstance(topic, sns.Topic)
    found = Synthesised.of(stack)
    assert found.ids("AWS::SNS::Topic") == ["AlarmsTopic3A2DFEBA"]
    assert len(found.all("AWS::SNS::Subscription")) == 2


def test_alarms_fit_composite_alarms_actions_and_dashboards_of_cdk() -> None:
    app = Own.with_variant()
    topic, inform = topic_of("imported", app.stack), sns.Topic(app.stack, "Topic")
    settings = own.Alarms(p99_latency_ms=80)
    alarms = own.EndpointAlarms(
        app.stack, "Alarms", endpoint=app.endpoint, alarms=settings, inform=inform
    )
    own.EndpointDashboard(app.stack, "Dashboard", endpoint=app.endpoint, alarms=alarms)
    latency = alarms.of("primary", "p99-latency")
    assert latency is not None
    latency.add_insufficient_data_action(actions.SnsAction(topic))
    alarms.objective.add_alarm_action(actions.SnsAction(topic))
    both = cloudwatch.AlarmRule.all_of(latency, alarms.objective)
    cloudwatch.CompositeAlarm(app.stack, "Both", alarm_rule=both)
    graph = cloudwatch.GraphWidget(left=[latency.metric, app.endpoint.metric_invocations()])
    shown = cloudwatch.AlarmWidget(title="p99", alarm=latency)
    cloudwatch.Dashboard(app.stack, "Wall", widgets=[[shown], [graph]])
    found = app.synthesised
    made = {each["AlarmName"]: each for each in found.all("AWS::CloudWatch::Alarm")}
    assert made["search-primary-p99-latency"]["InsufficientDataActions"] == [ON_CALL]
    made = {each["AlarmName"]: each for each in found.all("AWS::CloudWatch::CompositeAlarm")}
    assert made["search-objective"]["AlarmActions"][1] == ON_CALL


def test_scaling_is_a_scalable_target_of_cdk_with_the_service_linked_role() -> None:
    app = Own()
    variant = app.add(min_instances=2, max_instances=6)
    variant.auto_scale(max_rps_per_instance=100)
    app.endpoint.add_alarms(p99_latency_ms=80, notify=sns.Topic(app.stack, "Topic"))
    assert app.endpoint.alarms is not None  # creates the constructs
    target = variant.target
    assert isinstance(target, autoscaling.ScalableTarget)
    night = autoscaling.Schedule.expression("cron(0 22 * * ? *)")
    target.scale_on_schedule("Night", schedule=night, max_capacity=3)
    cpu = app.endpoint.metric_cpu_utilization()
    target.scale_to_track_metric("Cpu", target_value=200, custom_metric=cpu)
    found = app.synthesised
    properties = found.one("AWS::ApplicationAutoScaling::ScalableTarget")
    assert [each["ScheduledActionName"] for each in properties["ScheduledActions"]] == ["Night"]
    role = "".join(map(str, properties["RoleARN"]["Fn::Join"][1]))
    assert role.endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    assert len(found.all("AWS::IAM::Role")) == 1  # the model's
    policies = found.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    tracked = [each["TargetTrackingScalingPolicyConfiguration"] for each in policies]
    assert [each["TargetValue"] for each in tracked] == [100 * 60 * 0.5, 200]
