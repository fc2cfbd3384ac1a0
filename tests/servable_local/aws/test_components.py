"""Inference components: copies placed on counted instances, asleep at zero, woken by a call."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from servable_local.aws.clock import TICK_SECONDS, ManualClock
from servable_local.aws.sagemaker.instances import NO_ROOM, InstanceFaults, find_resources
from servable_scaling.rehearsal.scenario import EMPTY_MINUTES
from tests.servable_local.aws.boto_members import named, until
from tests.servable_local.aws.deployed_templates import get, resource, serving
from tests.servable_local.aws.local_account import TRUST, Account, refused
from tests.servable_local.aws.test_scaling_acts import MANY, stepping

NAME = {"InferenceComponentName": "ranker"}
SCALING = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}
COPIES = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/ranker",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}


class Sleeper:
    """An endpoint `sleeper` of ml.m5.large with one component `ranker`, from none to two instances."""

    def __init__(self, account: Account, clock: ManualClock) -> None:
        self.account, self.clock = account, clock
        self.sagemaker = account.client("sagemaker")
        iam = account.client("iam")
        self.role = iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
        self.model("ranker", b"first")
        self.configure("sleeper")
        self.sagemaker.create_endpoint(EndpointName="sleeper", EndpointConfigName="sleeper")
        until(lambda: self.endpoint()["EndpointStatus"] == "InService")

    def model(self, name: str, content: bytes) -> None:
        url = self.account.put_archive(content, f"{name}.tar.gz")
        image = {"Image": "tensorflow-inference:2.20-cpu", "ModelDataUrl": url}
        given = {"ExecutionRoleArn": self.role, "PrimaryContainer": image}
        self.sagemaker.create_model(ModelName=name, **given)

    def configure(self, name: str, **other: Any) -> None:
        variant: dict[str, Any] = {"VariantName": "primary", "InstanceType": "ml.m5.large"}
        variant |= {"InitialInstanceCount": 1, "ManagedInstanceScaling": SCALING}
        variant |= other.pop("variant", {})
        request = {"ExecutionRoleArn": self.role, "ProductionVariants": [variant]} | other
        request = {key: value for key, value in request.items() if value is not None}
        self.sagemaker.create_endpoint_config(EndpointConfigName=name, **request)

    def create(self, *, memory_mb: int = 4096, copies: int = 1, name: str = "ranker") -> None:
        given: dict[str, Any] = {"InferenceComponentName": name, "EndpointName": "sleeper"}
        given |= {"Specification": specified("ranker", memory_mb)}
        create = self.sagemaker.create_inference_component
        create(**given, RuntimeConfig={"CopyCount": copies})
        self.settled()

    def scale(self, copies: int, *, wait: bool = True) -> None:
        update = self.sagemaker.update_inference_component_runtime_config
        update(**NAME, DesiredRuntimeConfig={"CopyCount": copies})
        if wait:
            self.settled()

    def settled(self) -> None:
        working = ("Creating", "Updating")
        until(lambda: self.component()["InferenceComponentStatus"] not in working)

    def endpoint(self) -> Any:
        return self.sagemaker.describe_endpoint(EndpointName="sleeper")

    def component(self, name: str = "ranker") -> Any:
        return self.sagemaker.describe_inference_component(InferenceComponentName=name)

    @property
    def copies(self) -> tuple[int, int]:
        """Desired and current."""
        config = self.component()["RuntimeConfig"]
        return config["DesiredCopyCount"], config["CurrentCopyCount"]

    @property
    def instances(self) -> int:
        return int(self.endpoint()["ProductionVariants"][0]["CurrentInstanceCount"])

    def invoke(self, component: str | None = "ranker") -> bytes:
        named = {} if component is None else {"InferenceComponentName": component}
        invoke = self.account.client("sagemaker-runtime").invoke_endpoint
        return bytes(invoke(EndpointName="sleeper", Body=b"x", **named)["Body"].read())

    def minutes(self, count: int) -> None:
        self.clock.advance(seconds=60 * count)


def specified(model: str, memory_mb: int) -> dict[str, Any]:
    needs = {"MinMemoryRequiredInMb": memory_mb, "NumberOfCpuCoresRequired": 1}
    return {"ModelName": model, "ComputeResourceRequirements": needs}


@pytest.fixture
def sleeper(account: Account, clock: ManualClock) -> Iterator[Sleeper]:
    sleeper = Sleeper(account, clock)
    yield sleeper
    for each in sleeper.sagemaker.list_inference_components()["InferenceComponents"]:
        name = each["InferenceComponentName"]
        sleeper.sagemaker.delete_inference_component(InferenceComponentName=name)


@pytest.mark.long
def test_a_component_answers_who_names_it_and_sleeps_at_zero_copies(sleeper: Sleeper) -> None:
    sleeper.create()
    assert b"first" in sleeper.invoke()
    said = refused(sleeper.invoke, None)
    assert said.startswith("Inference Component Name header is required for endpoints")
    before = len(sleeper.account.launcher.serving(b"first"))
    sleeper.scale(0)
    until(lambda: len(sleeper.account.launcher.serving(b"first")) == before - 1)
    assert "has no capacity to process this request" in refused(sleeper.invoke)
    sleeper.minutes(EMPTY_MINUTES)
    before = sleeper.instances
    sleeper.minutes(1)
    assert (before, sleeper.instances) == (1, 0)
    sleeper.minutes(EMPTY_MINUTES + 1)
    endpoint = sleeper.account.hosting.endpoints.find("sleeper")
    endpoint.instance_faults = InstanceFaults(start_seconds=300)
    sleeper.scale(1, wait=False)
    sleeper.minutes(4)
    before = sleeper.copies
    sleeper.minutes(2)
    sleeper.settled()
    assert (before, sleeper.copies) == ((1, 0), (1, 1))


def test_a_copy_for_which_no_room_is_left_gets_an_instance(sleeper: Sleeper) -> None:
    sleeper.create(copies=3)  # an ml.m5.large has 2 vCPUs and 8 GiB: two copies of 4 GiB
    assert (sleeper.copies, sleeper.instances) == ((3, 3), 2)
    sleeper.scale(5)
    assert (sleeper.component()["FailureReason"], sleeper.copies) == (NO_ROOM, (4, 4))


def test_a_component_or_a_configuration_that_cannot_be_is_refused(sleeper: Sleeper) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ExecutionRoleArn": None}, "ExecutionRoleArn is required"),
        ({"variant": {"ModelName": "ranker"}}, "only supported for inference component endpoints"),
        ({"variant": {"ManagedInstanceScaling": {**SCALING, "MinInstanceCount": 3}}}, "exceeds"),
        ({"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b/"}}}, "not supported"),
    ]
    for config, sentence in wrong:
        assert sentence in refused(sleeper.configure, "other", **config)
    variant = {"VariantName": "v", "InstanceType": "ml.m5.large", "ManagedInstanceScaling": SCALING}
    aws, number = sleeper.account.aws, sleeper.account.number
    create = aws.client("sagemaker", account=number, region="eu-west-3").create_endpoint_config
    said = refused(create, EndpointConfigName="e", ProductionVariants=[variant])
    assert said.startswith("Min instance count needs to be greater than 0")
    assert "an integer larger than 0" in refused(sleeper.create, copies=0)
    sleeper.create(memory_mb=9000)
    shown = sleeper.component()
    assert (shown["InferenceComponentStatus"], shown["FailureReason"]) == ("Failed", NO_ROOM)


def test_a_new_specification_serves_when_its_copies_do(sleeper: Sleeper) -> None:
    sleeper.create()
    update = sleeper.sagemaker.update_inference_component
    for name, content, answers in (
        ("broken", b"BROKEN", b"first"),
        ("second", b"second", b"second"),
    ):
        sleeper.model(name, content)
        update(**NAME, Specification=specified(name, 1024))
        sleeper.settled()
        assert answers in sleeper.invoke()
        if name == "broken":
            assert "did not answer its ping" in sleeper.component()["FailureReason"]
    assert sleeper.copies == (1, 1)


@pytest.mark.long
def test_copies_stay_when_the_endpoint_gets_another_configuration(sleeper: Sleeper) -> None:
    sleeper.create(copies=2)
    sleeper.configure("again")
    sleeper.sagemaker.update_endpoint(EndpointName="sleeper", EndpointConfigName="again")
    until(lambda: sleeper.endpoint()["EndpointStatus"] == "InService")
    sleeper.minutes(EMPTY_MINUTES + 2)
    assert (b"first" in sleeper.invoke(), sleeper.copies, sleeper.instances) == (True, (2, 2), 1)
    sleeper.account.delete_endpoint("sleeper")
    assert sleeper.component()["RuntimeConfig"]["CurrentCopyCount"] == 0


def policies(sleeper: Sleeper) -> None:
    scaling = sleeper.account.client("application-autoscaling")
    scaling.register_scalable_target(**COPIES, MinCapacity=0, MaxCapacity=3)
    metric = {"PredefinedMetricType": "SageMakerInferenceComponentInvocationsPerCopy"}
    tracked = {"TargetValue": 1, "PredefinedMetricSpecification": metric}
    given = {"PolicyName": "tracking", "PolicyType": "TargetTrackingScaling"}
    put = partial(scaling.put_scaling_policy, **COPIES)
    put(**given, TargetTrackingScalingPolicyConfiguration=tracked)
    one = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}
    steps = stepping("ChangeInCapacity", one, Cooldown=60, MetricAggregationType="Maximum")
    arn = put(**steps | {"PolicyName": "wake"})["PolicyARN"]
    alarm = {"AlarmName": "wake", "MetricName": "NoCapacityInvocationFailures", "Threshold": 1}
    alarm |= {"Dimensions": named(InferenceComponentName="ranker"), "EvaluationPeriods": 1}
    alarm |= {"TreatMissingData": "missing", "AlarmActions": [arn]}
    sleeper.account.client("cloudwatch").put_metric_alarm(**MANY | alarm)


@pytest.mark.long
def test_load_adds_copies_silence_removes_them_and_one_call_wakes_one(sleeper: Sleeper) -> None:
    sleeper.create()
    policies(sleeper)
    for _ in range(5):
        for _ in range(9):
            sleeper.invoke()
        sleeper.minutes(1)
        sleeper.settled()
    assert sleeper.copies == (3, 3)
    sleeper.minutes(17)
    assert sleeper.copies == (2, 2)
    sleeper.minutes(20)
    assert sleeper.copies == (0, 0)
    sleeper.minutes(EMPTY_MINUTES + 1)
    assert sleeper.instances == 0
    refused(sleeper.invoke)
    sleeper.minutes(2)
    sleeper.settled()
    assert (sleeper.copies, sleeper.instances) == ((1, 1), 1)
    assert b"first" in sleeper.invoke()


def test_room_is_that_of_the_ec2_type() -> None:
    assert find_resources("ml.g5.xlarge") == (4, 16384, 1)


def stack(archive: str, *, memory_mb: int = 1024) -> dict[str, Any]:
    """A template with everything that an endpoint with one component needs."""
    template = serving(archive)
    resources = template["Resources"]
    config = resources["Config"]["Properties"]
    config["ExecutionRoleArn"] = get("Role", "Arn")
    variant = config["ProductionVariants"][0]
    del variant["ModelName"]
    variant["ManagedInstanceScaling"] = SCALING
    needs = {"ComputeResourceRequirements": {"MinMemoryRequiredInMb": memory_mb}}
    resources["Component"] = resource(
        "SageMaker::InferenceComponent", **NAME, EndpointName=get("Endpoint", "EndpointName"),
        VariantName="primary", RuntimeConfig={"CopyCount": 1},
        Specification={"ModelName": get("Model", "ModelName"), **needs},
    )  # fmt: skip
    return template


@pytest.mark.long
def test_cloudformation_deploys_a_component(account: Account, clock: ManualClock) -> None:
    archive = account.put_archive(b"stacked")
    first = account.deploy(stack(archive))
    made = [name for kind, name in account.inventory() if kind.endswith("InferenceComponent")]
    template = stack(archive, memory_mb=2048)
    specification = template["Resources"]["Component"]["Properties"]["Specification"]
    del specification["ModelName"]
    specification["Container"] = {"ArtifactUrl": archive, "Environment": {"WRITES": "own\n"}}
    second = account.deploy(template)
    clock.advance(seconds=TICK_SECONDS)
    group = "/aws/sagemaker/InferenceComponents/ranker"
    (line,) = account.client("logs").filter_log_events(logGroupName=group)["events"]
    shown = account.client("sagemaker").describe_inference_component(**NAME)
    third = account.delete()
    left = [kind for kind, _ in account.inventory() if "SageMaker" in kind]
    assert (first, second, third) == ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE")
    assert made == ["ranker"]
    needs = shown["Specification"]["ComputeResourceRequirements"]
    assert (needs["MinMemoryRequiredInMb"], line["message"], left) == (2048, "own", [])

    account = account.another()
    archive = account.put_archive(b"stacked")
    assert account.deploy(stack(archive, memory_mb=900_000)) == "ROLLBACK_COMPLETE"
    assert NO_ROOM in account.reason("Component", "CREATE_FAILED")
