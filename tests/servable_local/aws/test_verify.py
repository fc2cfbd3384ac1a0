"""`servable verify`: nothing on a fresh deployment, and each of what may differ by its name."""

import json
import shlex
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from infra.constructs.access.pipeline_role import LOOKS
from infra.parameters.loading import load
from servable_local.aws.clock import TICK_SECONDS, ManualClock
from stacks.pipeline_stack import _list_reads
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable_local.aws.boto_members import SCALING, scalable
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.verified import GOLDEN, TEXT, Deployed, Written

pytestmark = pytest.mark.long

TARGET = scalable()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("verified")
    (folder / "prod.toml").write_text(TEXT)
    (found,) = load(ROOT, folder)
    return Written(valid(found))


@pytest.fixture(autouse=True)
def answers_again(launcher: Launcher, written: Written) -> Iterator[None]:
    """Containers of all deployments have one archive: what a test does to them ends with it."""
    yield
    for one in launcher.serving(written.archives["ranker"][1]):
        one.seconds, one.answer = 0.0, (GOLDEN / "answer-rows.json").read_bytes()


@pytest.fixture
def deployed(account: Account, written: Written) -> Deployed:
    return Deployed(account, written)


@pytest.fixture(scope="module")
def untouched(accounts: Account, written: Written) -> Deployed:
    """For tests that change nothing."""
    return Deployed(accounts.another(), written)


def test_a_fresh_deployment_is_as_deployed(untouched: Deployed) -> None:
    assert [str(difference) for difference in untouched.report().differences] == []
    assert (untouched.report().summary, untouched.report().verdict) == ("as deployed", "holds")


def weigh(deployed: Deployed, **change: Any) -> None:
    variant = change.pop("variant", "fixed")
    deployed.account.change_capacities("ranker", VariantName=variant, **change)


def put_alarm(deployed: Deployed, name: str, **changes: Any) -> None:
    cloudwatch = deployed.client("cloudwatch")
    (found,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    asked = cloudwatch.meta.service_model.operation_model("PutMetricAlarm").input_shape.members
    kept = {key: value for key, value in found.items() if key in asked and value not in ([], "")}
    cloudwatch.put_metric_alarm(**{**kept, **changes})


def by_hand(deployed: Deployed) -> None:
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
    changed = {"ProductionVariants": list(variants.values())}
    sagemaker.create_endpoint_config(EndpointConfigName="by-hand", **changed)
    sagemaker.update_endpoint(EndpointName="ranker", EndpointConfigName="by-hand")


def widen(deployed: Deployed) -> None:
    """Give every role everything, by an inline and an attached policy."""
    iam = deployed.client("iam")
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    everything = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    arn = iam.create_policy(PolicyName="Administrator", PolicyDocument=everything)["Policy"]["Arn"]
    for role in iam.list_roles()["Roles"]:
        name = {"RoleName": role["RoleName"]}
        iam.attach_role_policy(**name, PolicyArn=arn)
        iam.put_role_policy(**name, PolicyName="wider", PolicyDocument=everything)


def drift(deployed: Deployed) -> None:
    """One of each kind, in what is live."""
    weigh(deployed, DesiredWeight=5.0, DesiredInstanceCount=3)
    weigh(deployed, variant="primary", DesiredInstanceCount=9)
    put_alarm(deployed, "ranker-primary-cpu", Threshold=1.0)
    put_alarm(deployed, "ranker-primary-memory", AlarmActions=[])
    cloudwatch, sns, iam, events, scaling = (
        deployed.client(service) for service in ("cloudwatch", "sns", "iam", "events", SCALING)
    )
    cloudwatch.delete_alarms(AlarmNames=["ranker-primary-disk"])
    cloudwatch.disable_alarm_actions(AlarmNames=["ranker-primary-p99-latency"])
    suspended = {"DynamicScalingOutSuspended": True}
    scaling.register_scalable_target(**TARGET, MaxCapacity=40, SuspendedState=suspended)
    scaling.register_scalable_target(**scalable("fixed"), MinCapacity=1, MaxCapacity=9)
    policies = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    tracked = "TargetTrackingScalingPolicyConfiguration"
    for policy in (one for one in policies if tracked in one):
        kept = {name: policy[name] for name in ("PolicyName", "PolicyType")}
        changed = {tracked: policy[tracked] | {"DisableScaleIn": True}}
        scaling.put_scaling_policy(**TARGET, **kept, **changed)
    deployed.put(deployed.keys["ranker"], b"another")
    deployed.client("logs").put_retention_policy(**GROUP, retentionInDays=1)
    answer = json.loads((GOLDEN / "answer-rows.json").read_text())
    answer["predictions"][0] = 0.999
    for one in deployed.launcher.serving(deployed.written.archives["ranker"][1]):
        one.answer = json.dumps(answer).encode()
    for subscription in sns.list_subscriptions()["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    nobody = json.dumps({"Version": "2012-10-17", "Statement": []})
    for topic in sns.list_topics()["Topics"]:
        sns.set_topic_attributes(**topic, AttributeName="Policy", AttributeValue=nobody)
    for role in iam.list_roles()["Roles"]:
        iam.delete_role_permissions_boundary(RoleName=role["RoleName"])
        for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
            iam.delete_role_policy(RoleName=role["RoleName"], PolicyName=name)
    widen(deployed)
    for rule in events.list_rules()["Rules"]:
        events.put_rule(Name=rule["Name"], EventPattern=json.dumps({"source": ["aws.nobody"]}))
        events.disable_rule(Name=rule["Name"])
    for board in cloudwatch.list_dashboards()["DashboardEntries"]:
        name = board["DashboardName"]
        cloudwatch.put_dashboard(DashboardName=name, DashboardBody='{"widgets": []}')
    for key in deployed.client("kms").list_keys()["Keys"]:
        deployed.client("kms").disable_key(KeyId=key["KeyId"])


def removal(deployed: Deployed) -> None:
    deployed.client(SCALING).deregister_scalable_target(**TARGET)
    deployed.client("s3").delete_object(Bucket=deployed.bucket, Key=deployed.keys["ranker"])
    deployed.account.delete_endpoint("ranker")
    deployed.client("logs").delete_retention_policy(**GROUP)


def failed_update(deployed: Deployed) -> None:
    main = deployed.main()
    deployed.put("b.tar.gz", b"BROKEN")
    for resource in main.template["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Model":
            container = resource["Properties"]["PrimaryContainer"]
            container["ModelDataUrl"] = f"s3://{deployed.bucket}/b.tar.gz"
    deployed.deploy(main)


def overridden(deployed: Deployed) -> None:
    main = deployed.main()
    main.template["Metadata"] = {"Overrides": {"variants.primary.max_instances": "5"}}
    for resource in main.template["Resources"].values():
        if resource["Type"].endswith("ScalableTarget"):
            resource["Properties"]["MaxCapacity"] = 5
    deployed.deploy(main)


GROUP = {"logGroupName": "/aws/sagemaker/Endpoints/ranker"}
PLANTED: list[tuple[Callable[[Deployed], None], str, str, str]] = [
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


@pytest.mark.parametrize(
    "plant", [by_hand, drift, removal, failed_update, overridden], ids=lambda plant: plant.__name__
)
def test_every_planted_difference_is_named(
    deployed: Deployed, plant: Callable[[Deployed], None]
) -> None:
    plant(deployed)
    found = deployed.report().differences
    for way, *wanted in PLANTED:
        if way is plant:
            assert any(
                all(said.startswith(text) for said, text in zip(told, wanted, strict=True))
                for told in ((one.kind, one.resource, one.key) for one in found)
            ), wanted
    if plant is failed_update:
        assert "did not answer its ping" in found[0].remedy


def follow(deployed: Deployed, remedy: str) -> None:
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


def test_the_printed_commands_undo_changes(deployed: Deployed, clock: ManualClock) -> None:
    cloudwatch = deployed.client("cloudwatch")

    def alarms(*kinds: str) -> list[str]:
        listed = cloudwatch.describe_alarms(AlarmTypes=kinds)
        return sorted(alarm["AlarmName"] for kind in kinds for alarm in listed[f"{kind}s"])

    before = alarms("MetricAlarm", "CompositeAlarm")
    (composite,) = alarms("CompositeAlarm")
    cloudwatch.delete_alarms(AlarmNames=[composite])
    cloudwatch.delete_alarms(AlarmNames=["ranker-primary-disk", "ranker-primary-p99-latency"])
    put_alarm(deployed, "ranker-primary-cpu", Threshold=1.0, TreatMissingData="ignore")
    cloudwatch.disable_alarm_actions(AlarmNames=["ranker-primary-memory"])
    weigh(deployed, DesiredWeight=5.0)
    suspended = {"DynamicScalingOutSuspended": True}
    deployed.client(SCALING).register_scalable_target(**TARGET, SuspendedState=suspended)
    for rule in deployed.client("events").list_rules()["Rules"]:
        deployed.client("events").disable_rule(Name=rule["Name"])
    widen(deployed)
    for difference in deployed.report().differences:
        follow(deployed, difference.remedy)
    clock.advance(seconds=TICK_SECONDS)  # which ends the update of the weight
    assert [str(difference) for difference in deployed.report().differences] == []
    assert alarms("MetricAlarm", "CompositeAlarm") == before


def test_what_is_meant_or_scalings_own_is_no_difference_but_that_nothing_is_deployed(
    deployed: Deployed,
) -> None:
    weigh(deployed, variant="primary", DesiredInstanceCount=4)  # within its bounds
    assert deployed.report().differences == []
    overridden(deployed)
    report = deployed.report(**{"variants.primary.max_instances": "5"})
    assert "override" not in {difference.kind for difference in report.differences}
    for stack in reversed(deployed.stacks()):
        deployed.account.delete(stack.name)
    assert [difference.kind for difference in deployed.report().differences] == ["not deployed"] * 2


def ask_slowly(deployed: Deployed, clock: ManualClock, minutes: int) -> None:
    for one in deployed.launcher.serving(deployed.written.archives["ranker"][1]):
        one.seconds = 0.25
    for _ in range(minutes):
        invoke, to = deployed.client("sagemaker-runtime").invoke_endpoint, "primary"
        invoke(EndpointName="ranker", Body=b"{}", ContentType="application/json", TargetVariant=to)
        clock.advance(minutes=1)


def test_slow_minutes_are_a_difference(deployed: Deployed, clock: ManualClock) -> None:
    ask_slowly(deployed, clock, minutes=1)
    report = deployed.report()
    assert (report.differences, report.measured["primary"]["p99_latency_ms"]) == ([], 250.0)
    ask_slowly(deployed, clock, minutes=3)
    (difference,) = deployed.report().differences
    assert difference.kind == "slower since the update"
    back = "`servable history prod --restore previous --write`, then `cdk deploy 'prod/*'`"
    assert back in difference.remedy


# Where an operation's action has another name.
ACTIONS = {
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "monitoring:": "cloudwatch:",
}


def test_a_pipelines_role_suffices_to_verify(untouched: Deployed, written: Written) -> None:
    asked: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        # Captured requests are put by the local AWS, in this process and with this client.
        files = {Path(frame.filename).name for frame in traceback.extract_stack()}
        if "stored_invocations.py" in files:
            return
        metadata = model.service_model.metadata
        said = f"{metadata.get('signingName', metadata['endpointPrefix'])}:{model.name}"
        for one, other in ACTIONS.items():
            said = said.replace(one, other)
        asked.add(said)

    services = (SCALING, "cloudformation", "cloudwatch", "events", "iam", "kms", "logs", "s3")
    services += ("sagemaker", "sagemaker-runtime", "sns")
    events = [untouched.asked.client(service).meta.events for service in services]
    for each in events:
        each.register("before-call", note, unique_id="asked")
    untouched.report()
    for each in events:
        each.unregister("before-call", note, unique_id="asked")
    allowed = {*LOOKS, *_list_reads(cdk.Stack(), "prod", written.loaded.environment)}
    assert (len(asked) > 10, asked - allowed) == (True, set())
