"""`servable verify`: nothing on a fresh deployment, and each of what may differ by its name."""

import functools
import json
import shlex
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from infra.constructs.access.pipeline_role import LOOKS
from infra.parameters.loading import ValidFile
from servable.project.account import Account
from servable.verify import golden
from servable.verify import model as verified_model
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Report
from servable_local.aws.clock import TICK_SECONDS, ManualClock
from servable_local.aws.local_aws import LocalAws
from stacks.pipeline_stack import _list_reads
from tests.conftest import valid
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.verified import GOLDEN, Project, Verified

pytestmark = pytest.mark.long

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ranker/variant/primary",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("verified"))


@pytest.fixture
def deployed(embedded: LocalAws, launcher: Launcher, written: Project) -> Verified:
    return Verified(embedded, launcher, written)


@pytest.fixture(scope="module")
def untouched(embedded: LocalAws, launcher: Launcher, written: Project) -> Verified:
    """For tests that change nothing."""
    return Verified(embedded, launcher, written)


def test_a_fresh_deployment_is_as_deployed(untouched: Verified) -> None:
    assert [str(difference) for difference in untouched.report().differences] == []
    assert (untouched.report().summary, untouched.report().verdict) == ("as deployed", "holds")


def golden_of(untouched: Verified, **change: Any) -> Report:
    """What is known of the answers with another golden request."""
    environment = valid(untouched.project.loaded).environment
    model = environment.models["ranker"]
    model = model.model_copy(
        update={"golden": model.golden and model.golden.model_copy(update=change)}
    )
    if not change:
        model = model.model_copy(update={"golden": None})
    report = Report(environment="prod")
    changed = environment.model_copy(update={"models": {"ranker": model}})
    report.differences += golden.compare_responses(untouched.asked, changed, report)
    return report


def test_answers_are_not_compared_without_a_golden_one(untouched: Verified) -> None:
    assert golden_of(untouched).summary == "as deployed, answers not asked"
    assert golden_of(untouched, answer=None).summary == "as deployed, answers not compared"


def weigh(deployed: Verified, **change: Any) -> None:
    variant = change.pop("variant", "fixed")
    deployed.account.change_capacities("ranker", VariantName=variant, **change)


def put_alarm(deployed: Verified, name: str, **changes: Any) -> None:
    cloudwatch = deployed.client("cloudwatch")
    (found,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    asked = cloudwatch.meta.service_model.operation_model("PutMetricAlarm").input_shape.members
    kept = {key: value for key, value in found.items() if key in asked and value not in ([], "")}
    cloudwatch.put_metric_alarm(**{**kept, **changes})


def by_hand(deployed: Verified) -> None:
    """Another model in one variant, another type in the other, and no capture."""
    sagemaker = deployed.client("sagemaker")
    config = deployed.config()
    found = sagemaker.describe_model(ModelName=config["ProductionVariants"][0]["ModelName"])
    image = found["PrimaryContainer"]["Image"].replace("2.20", "2.19")
    container = {**found["PrimaryContainer"], "Environment": {"LOG": "1"}, "Image": image}
    role = found["ExecutionRoleArn"]
    sagemaker.create_model(ModelName="by-hand", ExecutionRoleArn=role, PrimaryContainer=container)
    variants = {variant["VariantName"]: variant for variant in config["ProductionVariants"]}
    variants["primary"]["ModelName"] = "by-hand"
    variants["fixed"]["InstanceType"] = "ml.m5.large"
    sagemaker.create_endpoint_config(
        EndpointConfigName="by-hand", ProductionVariants=list(variants.values())
    )
    sagemaker.update_endpoint(EndpointName="ranker", EndpointConfigName="by-hand")


def widen(deployed: Verified) -> None:
    """Give every role everything, by an inline and an attached policy."""
    iam = deployed.client("iam")
    everything = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
        }
    )
    arn = iam.create_policy(PolicyName="Administrator", PolicyDocument=everything)["Policy"]["Arn"]
    for role in iam.list_roles()["Roles"]:
        iam.attach_role_policy(RoleName=role["RoleName"], PolicyArn=arn)
        iam.put_role_policy(
            RoleName=role["RoleName"], PolicyName="wider", PolicyDocument=everything
        )


def drift(deployed: Verified) -> None:
    """One of each kind, in what is live."""
    weigh(deployed, DesiredWeight=5.0, DesiredInstanceCount=3)
    weigh(deployed, variant="primary", DesiredInstanceCount=9)
    put_alarm(deployed, "ranker-primary-cpu", Threshold=1.0)
    put_alarm(deployed, "ranker-primary-memory", AlarmActions=[])
    cloudwatch, s3 = deployed.client("cloudwatch"), deployed.client("s3")
    cloudwatch.delete_alarms(AlarmNames=["ranker-primary-disk"])
    cloudwatch.disable_alarm_actions(AlarmNames=["ranker-primary-p99-latency"])
    deployed.client("application-autoscaling").register_scalable_target(
        **TARGET, MaxCapacity=40, SuspendedState={"DynamicScalingOutSuspended": True}
    )
    s3.put_object(Bucket=deployed.bucket, Key=deployed.key, Body=b"another")
    deployed.client("logs").put_retention_policy(**GROUP, retentionInDays=1)
    answer = json.loads((GOLDEN / "answer-rows.json").read_text())
    answer["predictions"][0] = 0.999
    for one in deployed.launcher.serving(deployed.project.archive):
        one.answer = json.dumps(answer).encode()
    sns, iam = deployed.client("sns"), deployed.client("iam")
    for subscription in sns.list_subscriptions()["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    for role in iam.list_roles()["Roles"]:
        iam.delete_role_permissions_boundary(RoleName=role["RoleName"])
        for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
            iam.delete_role_policy(RoleName=role["RoleName"], PolicyName=name)
    widen(deployed)
    policies = deployed.client("application-autoscaling").describe_scaling_policies(
        ServiceNamespace="sagemaker"
    )
    for policy in policies["ScalingPolicies"]:
        if tracking := policy.get("TargetTrackingScalingPolicyConfiguration"):
            deployed.client("application-autoscaling").put_scaling_policy(
                PolicyName=policy["PolicyName"],
                PolicyType=policy["PolicyType"],
                TargetTrackingScalingPolicyConfiguration={**tracking, "DisableScaleIn": True},
                **TARGET,
            )
    for rule in deployed.client("events").list_rules()["Rules"]:
        deployed.client("events").disable_rule(Name=rule["Name"])
        edited = {"source": ["aws.nobody"]}
        deployed.client("events").put_rule(Name=rule["Name"], EventPattern=json.dumps(edited))
        deployed.client("events").disable_rule(Name=rule["Name"])
    for topic in sns.list_topics()["Topics"]:
        nothing = json.dumps({"Version": "2012-10-17", "Statement": []})
        sns.set_topic_attributes(
            TopicArn=topic["TopicArn"], AttributeName="Policy", AttributeValue=nothing
        )
    for board in cloudwatch.list_dashboards()["DashboardEntries"]:
        cloudwatch.put_dashboard(
            DashboardName=board["DashboardName"], DashboardBody='{"widgets": []}'
        )
    deployed.client("application-autoscaling").register_scalable_target(
        **{**TARGET, "ResourceId": "endpoint/ranker/variant/fixed"}, MinCapacity=1, MaxCapacity=9
    )
    for key in deployed.client("kms").list_keys()["Keys"]:
        deployed.client("kms").disable_key(KeyId=key["KeyId"])


def removal(deployed: Verified) -> None:
    deployed.client("application-autoscaling").deregister_scalable_target(**TARGET)
    deployed.client("s3").delete_object(Bucket=deployed.bucket, Key=deployed.key)
    deployed.account.delete_endpoint("ranker")
    deployed.client("logs").delete_retention_policy(**GROUP)


def failed_update(deployed: Verified) -> None:
    main = deployed.main()
    deployed.client("s3").put_object(Bucket=deployed.bucket, Key="b.tar.gz", Body=b"BROKEN")
    for resource in main.template["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Model":
            container = resource["Properties"]["PrimaryContainer"]
            container["ModelDataUrl"] = f"s3://{deployed.bucket}/b.tar.gz"
    deployed.deploy(main)


def overridden(deployed: Verified) -> None:
    main = deployed.main()
    main.template["Metadata"] = {"Overrides": {"variants.primary.max_instances": "5"}}
    for resource in main.template["Resources"].values():
        if resource["Type"].endswith("ScalableTarget"):
            resource["Properties"]["MaxCapacity"] = 5
    deployed.deploy(main)


GROUP = {"logGroupName": "/aws/sagemaker/Endpoints/ranker"}
PLANTED: list[tuple[Callable[[Verified], None], str, str, str]] = [
    (by_hand, "silent rollback", "ranker", "EndpointConfigName"),
    (by_hand, "endpoint configuration", "ranker", "ProductionVariants[fixed].InstanceType"),
    (by_hand, "data capture", "ranker", "EnableCapture"),
    (by_hand, "model", "by-hand", "PrimaryContainer.Image"),
    (by_hand, "model", "by-hand", "PrimaryContainer.Environment.LOG"),
    (drift, "drifted weight", "ranker/fixed", "CurrentWeight"),
    (drift, "drifted count", "ranker/fixed", "CurrentInstanceCount"),
    (drift, "drifted count", "ranker/primary", "CurrentInstanceCount"),
    (drift, "alarm changed", "ranker-primary-cpu", "Threshold"),
    (drift, "alarm without actions", "ranker-primary-memory", "AlarmActions"),
    (drift, "alarm missing", "ranker-primary-disk", ""),
    (drift, "alarm actions disabled", "ranker-primary-p99-latency", "ActionsEnabled"),
    (drift, "scaling bounds", TARGET["ResourceId"], "MaxCapacity"),
    (drift, "scaling policy", "", "DisableScaleIn"),
    (drift, "role permissions", "", "arn:aws:iam::"),
    (drift, "role permissions", "", "wider"),
    (drift, "scaling suspended", TARGET["ResourceId"], "DynamicScalingOutSuspended"),
    (drift, "artefact changed", "s3://", "sha256"),
    (drift, "log retention", GROUP["logGroupName"], "RetentionInDays"),
    (drift, "golden answer", "ranker/primary", "examples/ranker/golden/request-rows.json"),
    (drift, "subscription missing", "arn:", ""),
    (drift, "IAM Policy missing", "", ""),
    (drift, "role boundary", "", "PermissionsBoundary"),
    (drift, "event rule disabled", "", "State"),
    (drift, "key not usable", "", "KeyState"),
    (drift, "event pattern", "", "source"),
    (drift, "topic policy", "arn:", "Statement"),
    (drift, "dashboard changed", "", ""),
    (drift, "scaling by hand", "endpoint/ranker/variant/fixed", "MaxCapacity"),
    (removal, "scaling target missing", TARGET["ResourceId"], ""),
    (removal, "artefact missing", "s3://", ""),
    (removal, "endpoint missing", "ranker", ""),
    (removal, "log retention", GROUP["logGroupName"], "RetentionInDays"),
    (failed_update, "stack status", "prod-endpoint", ""),
    (overridden, "override", "prod-endpoint", "variants.primary.max_instances"),
    (overridden, "not as in the file", "prod-endpoint/", "Properties.MaxCapacity"),
]
Planted = Callable[[Callable[[Verified], None]], Report]


@pytest.fixture(scope="module")
def planted(embedded: LocalAws, launcher: Launcher, written: Project) -> Planted:
    """What is found after each way of planting, which is done once."""

    @functools.cache
    def found(plant: Callable[[Verified], None]) -> Report:
        deployed = Verified(embedded, launcher, written)
        plant(deployed)
        return deployed.report()

    return found


@pytest.mark.parametrize(
    "case", PLANTED, ids=lambda case: f"{case[0].__name__}: {case[1]} {case[3]}"
)
def test_a_planted_difference_is_named(
    planted: Planted, case: tuple[Callable[[Verified], None], str, str, str]
) -> None:
    plant, kind, resource, key = case
    assert any(
        difference.kind == kind
        and difference.resource.startswith(resource)
        and difference.key.startswith(key)
        for difference in planted(plant).differences
    )


def follow(deployed: Verified, remedy: str) -> None:
    """Run the AWS CLI's command in a remedy with boto3."""
    command = remedy[remedy.index("`aws ") + 1 : remedy.rindex("`")]
    _, service, operation, *options = shlex.split(command)
    client = deployed.client(service)
    model = client.meta.service_model.operation_model(
        "".join(word.capitalize() for word in operation.split("-"))
    )
    given: dict[str, Any] = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--cli-input-json":
            given |= json.loads(value)
        elif option != "--region":
            name = "".join(word.capitalize() for word in option.split("-"))
            given[name] = read_option(model.input_shape.members[name], value)
    getattr(client, operation.replace("-", "_"))(**given)


def read_option(shape: Any, value: str) -> Any:
    """Read one value as the AWS CLI does: its shorthand of lists and structures."""
    if shape.type_name == "list":
        return [read_option(shape.member, value)]
    if shape.type_name == "structure":
        pairs = (pair.split("=") for pair in value.split(","))
        return {key: read_option(shape.members[key], inner) for key, inner in pairs}
    return value if shape.type_name == "string" else json.loads(value)


def test_the_printed_commands_undo_changes(deployed: Verified, clock: ManualClock) -> None:
    cloudwatch = deployed.client("cloudwatch")
    listed = cloudwatch.describe_alarms(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    before = {alarm["AlarmName"] for alarm in listed["MetricAlarms"] + listed["CompositeAlarms"]}
    (composite,) = (alarm["AlarmName"] for alarm in listed["CompositeAlarms"])
    cloudwatch.delete_alarms(AlarmNames=[composite])
    cloudwatch.delete_alarms(AlarmNames=["ranker-primary-disk", "ranker-primary-p99-latency"])
    put_alarm(deployed, "ranker-primary-cpu", Threshold=1.0, TreatMissingData="ignore")
    cloudwatch.disable_alarm_actions(AlarmNames=["ranker-primary-memory"])
    weigh(deployed, DesiredWeight=5.0)
    deployed.client("application-autoscaling").register_scalable_target(
        **TARGET, SuspendedState={"DynamicScalingOutSuspended": True}
    )
    for rule in deployed.client("events").list_rules()["Rules"]:
        deployed.client("events").disable_rule(Name=rule["Name"])
    widen(deployed)
    for difference in deployed.report().differences:
        follow(deployed, difference.remedy)
    clock.advance(seconds=TICK_SECONDS)  # which ends the update of the weight
    assert [str(difference) for difference in deployed.report().differences] == []
    listed = cloudwatch.describe_alarms(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    after = {alarm["AlarmName"] for alarm in listed["MetricAlarms"] + listed["CompositeAlarms"]}
    assert after == before


def test_a_failed_update_is_told_with_its_reason_also_as_json(planted: Planted) -> None:
    (found,) = (
        difference
        for difference in planted(failed_update).differences
        if difference.kind == "stack status"
    )
    assert "did not answer its ping" in found.remedy
    said = json.loads(json.dumps(planted(failed_update).as_json(), default=str))
    assert (said["ok"], said["differences"][0]["kind"]) == (False, "stack status")


def test_an_override_that_is_meant_is_no_difference(deployed: Verified) -> None:
    overridden(deployed)
    report = deployed.report(**{"variants.primary.max_instances": "5"})
    assert "override" not in {difference.kind for difference in report.differences}


def test_a_count_within_scalings_bounds_is_scalings_own(deployed: Verified) -> None:
    weigh(deployed, variant="primary", DesiredInstanceCount=4)
    assert deployed.kinds() == set()


def test_nothing_deployed_is_one_difference_for_each_stack(deployed: Verified) -> None:
    for stack in reversed(deployed.stacks()):
        deployed.account.delete(stack.name)
    assert [difference.kind for difference in deployed.report().differences] == ["not deployed"] * 2


def ask_slowly(deployed: Verified, clock: ManualClock, minutes: int) -> None:
    for one in deployed.launcher.serving(deployed.project.archive):
        one.seconds = 0.25
    for _ in range(minutes):
        deployed.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="ranker",
            Body=b"{}",
            ContentType="application/json",
            TargetVariant="primary",
        )
        clock.advance(minutes=1)


@pytest.fixture(scope="module")
def slow(
    embedded: LocalAws, launcher: Launcher, written: Project, clock: ManualClock
) -> tuple[Report, Report]:
    """What is found after one slow minute, and after four."""
    deployed = Verified(embedded, launcher, written)
    ask_slowly(deployed, clock, minutes=1)
    first = deployed.report()
    ask_slowly(deployed, clock, minutes=3)
    return first, deployed.report()


def test_slow_minutes_are_a_difference(slow: tuple[Report, Report]) -> None:
    (difference,) = slow[1].differences
    assert difference.kind == "slower since the update"
    back = "`servable history prod --restore previous --write`, then `cdk deploy 'prod/*'`"
    assert back in difference.remedy
    report, _ = slow
    assert (report.differences, report.measured["primary"]["p99_latency_ms"]) == ([], 250.0)


def running(version: str, account: Account) -> DeployedStack:
    """A stack whose model has the stock image of that version."""
    uri = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:{version}-cpu-py312"
    model = Resource(
        logical="Model",
        type="AWS::SageMaker::Model",
        physical="model",
        properties={"PrimaryContainer": {"Image": uri}},
    )
    return DeployedStack(account=account, name="s", status="", template={}, resources=(model,))


@pytest.mark.parametrize(("version", "kinds"), [("2.19", ["ended image"]), ("2.20", [])])
def test_an_image_whose_patches_have_ended_is_named(
    embedded: LocalAws, written: Project, version: str, kinds: list[str]
) -> None:
    assert isinstance(written.loaded, ValidFile)
    nobody = Account(region="us-east-1", number="111111111111", aws=embedded)
    found = verified_model.check_image_patches(
        running(version, nobody), written.loaded.environment, print
    )
    assert [one.kind for one in found] == kinds


# Where an operation's action has another name.
ACTIONS = {
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "monitoring:": "cloudwatch:",
}


def action(service: str, operation: str) -> str:
    said = f"{service}:{operation}"
    for one, other in ACTIONS.items():
        said = said.replace(one, other)
    return said


def test_a_pipelines_role_suffices_to_verify(untouched: Verified, written: Project) -> None:
    asked: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        # Captured requests are put by the local AWS, in this process and with this client.
        files = {Path(frame.filename).name for frame in traceback.extract_stack()}
        if "stored_invocations.py" in files:
            return
        metadata = model.service_model.metadata
        prefix = metadata.get("signingName", metadata["endpointPrefix"])
        asked.add(action(prefix, model.name))

    services = ("application-autoscaling", "cloudformation", "cloudwatch", "events", "iam", "kms")
    for service in (*services, "logs", "s3", "sagemaker", "sagemaker-runtime", "sns"):
        client = untouched.asked.client(service)
        client.meta.events.register("before-call", note, unique_id="asked")
    untouched.report()
    for service in (*services, "logs", "s3", "sagemaker", "sagemaker-runtime", "sns"):
        client = untouched.asked.client(service)
        client.meta.events.unregister("before-call", note, unique_id="asked")
    assert isinstance(written.loaded, ValidFile)
    allowed = {*LOOKS, *_list_reads(cdk.Stack(), "prod", written.loaded.environment)}
    assert (len(asked) > 10, asked - allowed) == (True, set())
