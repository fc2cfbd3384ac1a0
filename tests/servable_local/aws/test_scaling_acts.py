"""Application Auto Scaling acts: an endpoint's instances follow its policies, on a clock that stands still.

Minutes of tracking policies rest on the alarms that were seen on AWS (3 of 3, 15 of 15).
"""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.model_api import check_frequency, check_pools
from tests.servable_local.aws.boto_members import SCALING, named, scalable, tracking
from tests.servable_local.aws.deployed_templates import resource, serving
from tests.servable_local.aws.local_account import TRUST, Account, refused
from tests.servable_local.aws.watched_endpoint import Watched

KEY = scalable()
TRACKING = resource(
    "ApplicationAutoScaling::ScalingPolicy", PolicyName="track", PolicyType="TargetTrackingScaling",
    ScalingTargetId={"Ref": "Target"},
    TargetTrackingScalingPolicyConfiguration=tracking(4, ScaleInCooldown=60, ScaleOutCooldown=60),
)  # fmt: skip


def stepping(kind: str, *steps: dict[str, int], **more: Any) -> dict[str, Any]:
    configured = {"AdjustmentType": kind, "StepAdjustments": steps, **more}
    named = {"PolicyName": "step", "PolicyType": "StepScaling"}
    return {**named, "StepScalingPolicyConfiguration": configured}


class Scaled:
    """`ranker` with two instances, between 1 and 6, and at most three containers."""

    def __init__(self, watched: Watched, *policies: dict[str, Any], archive: bytes = b"") -> None:
        self.watched, self.account = watched, watched.account
        self.account.hosting.most_containers = 3
        self.archive = archive or f"scaled {self.account.number}".encode()
        template = serving(self.account.put_archive(self.archive))
        bounds = {**KEY, "MinCapacity": 1, "MaxCapacity": 6}
        target = resource("ApplicationAutoScaling::ScalableTarget", **bounds)
        template["Resources"]["Target"] = target | {"DependsOn": "Endpoint"}
        for number, policy in enumerate(policies):
            template["Resources"][f"Policy{number}"] = policy
        assert self.account.deploy(template) == "CREATE_COMPLETE", self.account.events()
        watched.align()

    @property
    def client(self) -> Any:
        return self.account.client("application-autoscaling")

    def endpoint(self) -> dict[str, Any]:
        describe = self.account.client("sagemaker").describe_endpoint
        return dict(describe(EndpointName="ranker"))

    def counts(self) -> tuple[int, int]:
        """(current, desired)."""
        (variant,) = self.endpoint()["ProductionVariants"]
        return variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]

    def activities(self, **more: Any) -> list[dict[str, Any]]:
        """Newest first."""
        pages = self.client.get_paginator("describe_scaling_activities")
        found = pages.paginate(ServiceNamespace="sagemaker", **more).build_full_result()
        return list(found["ScalingActivities"])

    def fault(self, **faults: Any) -> None:
        for name, value in faults.items():
            setattr(self.watched.inside().instance_faults, name, value)


@pytest.fixture
def tracked(watched: Watched) -> Scaled:
    return Scaled(watched, TRACKING)


@pytest.fixture
def scaled(watched: Watched) -> Scaled:
    return Scaled(watched)


MANY: dict[str, Any] = {
    "AlarmName": "many", "Namespace": "AWS/SageMaker", "MetricName": "InvocationsPerInstance",
    "Dimensions": named(EndpointName="ranker", VariantName="primary"), "Statistic": "Sum",
    "Period": 60, "EvaluationPeriods": 2, "Threshold": 5,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold", "TreatMissingData": "notBreaching",
}  # fmt: skip


def put_alarm(scaled: Scaled, metric: str, *, threshold: float, action: str) -> None:
    """Put an alarm that acts where the sum of one minute reaches the threshold."""
    given = MANY | {"AlarmName": "steps", "MetricName": metric, "EvaluationPeriods": 1}
    scaled.account.client("cloudwatch").put_metric_alarm(
        **given | {"Threshold": threshold, "TreatMissingData": "missing", "AlarmActions": [action]}
    )


@pytest.mark.long
def test_a_tracking_policy_scales_out_and_in_by_its_own_alarms(tracked: Scaled) -> None:
    tracked.watched.minutes(4, requests=12)
    policies = tracked.client.describe_scaling_policies(ServiceNamespace="sagemaker")
    (policy,) = policies["ScalingPolicies"]
    high = next(one["AlarmName"] for one in policy["Alarms"] if "AlarmHigh" in one["AlarmName"])
    cause = f"monitor alarm {high} in state ALARM triggered policy track"
    assert tracked.activities()[0]["Cause"] == cause
    assert (tracked.counts(), len(tracked.watched.containers(tracked.archive))) == ((3, 3), 3)
    tracked.watched.clock.advance(minutes=25)
    assert tracked.counts() == (1, 1)
    said = [one["Description"] for one in tracked.activities()]
    assert said == [f"Setting desired instance count to {count}." for count in (1, 2, 3)]
    tracked.client.delete_scaling_policy(PolicyName="track", **KEY)
    assert tracked.account.client("cloudwatch").describe_alarms()["MetricAlarms"] == []


def test_instances_that_are_not_there_or_start_slowly_are_waited_for(scaled: Scaled) -> None:
    scaled.fault(capacity=2)
    scaled.account.scale(least=3, most=6)
    scaled.watched.clock.advance(minutes=1)
    why = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    said = f"Failed to set desired instance count to 3. Reason: {why}"
    assert (scaled.counts(), scaled.activities()[-1]["StatusMessage"]) == ((2, 2), said)

    containers = scaled.watched.containers(scaled.archive)
    for number, container in enumerate(containers):
        container.answer = str(number).encode()
    instances = scaled.watched.inside().choose_route(None).variant.instances  # type: ignore[union-attr]
    instances.least_outstanding = False
    invoke = scaled.account.client("sagemaker-runtime").invoke_endpoint
    answers = [invoke(EndpointName="ranker", Body=b"x")["Body"].read() for _ in range(4)]
    assert sorted(answers) == [b"0", b"0", b"1", b"1"]

    scaled.fault(capacity=None, start_seconds=240)
    scaled.account.scale(least=3, most=6)
    scaled.watched.clock.advance(seconds=230)
    waiting = scaled.counts(), scaled.endpoint()["EndpointStatus"]
    scaled.watched.clock.advance(seconds=20)
    served = scaled.counts(), scaled.endpoint()["EndpointStatus"]
    assert (waiting, served) == (((2, 3), "Updating"), ((3, 3), "InService"))


@pytest.mark.long
def test_instances_follow_alarms_schedules_and_bounds(scaled: Scaled) -> None:
    clock = scaled.watched.clock
    steps = stepping("ExactCapacity", {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 3})
    step = scaled.client.put_scaling_policy(**KEY, **steps)["PolicyARN"]
    scaled.account.scale(least=2, most=2)
    put_alarm(scaled, "InvocationsPerInstance", threshold=0, action=step)
    clock.advance(minutes=2)
    (told,) = scaled.activities(IncludeNotScaledActivities=True)
    reasons = [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 2}]
    assert (told["NotScaledReasons"], scaled.activities()) == (reasons, [])

    scaled.account.scale(least=1, most=6)
    put_alarm(scaled, "Invocations", threshold=5, action=step)
    scaled.watched.minutes(2, requests=5)
    assert scaled.counts() == (3, 3)

    scaled.account.client("cloudwatch").delete_alarms(AlarmNames=["steps"])
    at = f"cron({(clock.now().minute + 2) % 60} * * * ? *)"
    action = {"Schedule": at, "ScalableTargetAction": {"MinCapacity": 4}}
    scaled.client.put_scheduled_action(**KEY, ScheduledActionName="soon", **action)
    clock.advance(minutes=1)
    before = scaled.counts()
    clock.advance(minutes=2)
    assert (before, scaled.counts()) == ((3, 3), (4, 4))

    scaled.account.scale(least=5, most=6)
    clock.advance(minutes=1)
    # Beyond the limit instances are counted without a container.
    assert (scaled.counts(), len(scaled.watched.containers(scaled.archive))) == ((5, 5), 3)

    scaled.account.delete_endpoint("ranker")
    targets = scaled.client.describe_scalable_targets(ServiceNamespace="sagemaker")
    assert targets["ScalableTargets"] == []


def test_what_cannot_scale_is_refused(scaled: Scaled) -> None:
    for arguments, problem in [
        ({"Schedule": "cron(0 7 * * *)"}, "cron has six fields"),
        ({"Schedule": "at(2026-01-01T00:00:00)", "Timezone": "X"}, "X"),
    ]:
        with pytest.raises(ClientError, match=problem):
            scaled.client.put_scheduled_action(**KEY, ScheduledActionName="wrong", **arguments)

    adjustments = [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 1, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 2, "ScalingAdjustment": 2},
    ]
    with pytest.raises(ClientError, match="gap or overlap"):
        scaled.client.put_scaling_policy(**KEY, **stepping("ChangeInCapacity", *adjustments))

    scaled.client.deregister_scalable_target(**KEY)
    with pytest.raises(ClientError, match="MinCapacity and MaxCapacity are required"):
        scaled.client.register_scalable_target(**KEY, MinCapacity=1)


OF_SAGEMAKER = {"ServiceNamespace": "sagemaker"}


@pytest.fixture(scope="module")
def served(accounts: Account) -> Account:
    """An account with the endpoint `ranker` of two instances, in no stack of the tests."""
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")), "served")
    return account


def scaling_template(most: int, *names: str, policy: bool = True) -> dict[str, Any]:
    capacity = {"MinCapacity": 2, "MaxCapacity": 3}
    daily = {"Schedule": "cron(0 9 * * ? *)", "ScalableTargetAction": capacity}
    target = {**KEY, "MinCapacity": 1, "MaxCapacity": most}
    target["ScheduledActions"] = [{"ScheduledActionName": name, **daily} for name in names]
    by_target = {
        "PolicyName": "invocations",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": {"Ref": "Target"},
        "TargetTrackingScalingPolicyConfiguration": tracking(100),
    }
    resources = {"Target": resource("ApplicationAutoScaling::ScalableTarget", **target)}
    if policy:
        resources["Policy"] = resource("ApplicationAutoScaling::ScalingPolicy", **by_target)
    return {"Resources": resources, "Outputs": {"Target": {"Value": {"Ref": "Target"}}}}


def described(account: Account) -> tuple[list[str], list[int], int]:
    """Scheduled actions, maximums of targets, and how many policies."""
    scaling = account.client(SCALING)
    actions = scaling.describe_scheduled_actions(**OF_SAGEMAKER)["ScheduledActions"]
    targets = scaling.describe_scalable_targets(**OF_SAGEMAKER)["ScalableTargets"]
    policies = scaling.describe_scaling_policies(**OF_SAGEMAKER)["ScalingPolicies"]
    names = sorted(one["ScheduledActionName"] for one in actions)
    return names, [one["MaxCapacity"] for one in targets], len(policies)


def test_a_scaled_variant_of_a_stack_is_made_changed_and_deleted(served: Account) -> None:
    assert served.deploy(scaling_template(4, "day", "night")) == "CREATE_COMPLETE"
    assert served.output("Target") == f"{KEY['ResourceId']}|{KEY['ScalableDimension']}|sagemaker"
    assert described(served) == (["day", "night"], [4], 1)
    assert served.deploy(scaling_template(5, "night")) == "UPDATE_COMPLETE"
    assert described(served) == (["night"], [5], 1)
    assert served.deploy(scaling_template(5, "night", policy=False)) == "UPDATE_COMPLETE"
    assert described(served) == (["night"], [5], 0)
    served.delete()
    assert described(served) == ([], [], 0)


def test_what_was_deregistered_by_hand_is_no_obstacle(served: Account) -> None:
    scaling = served.client(SCALING)
    served.deploy(scaling_template(4))
    scaling.deregister_scalable_target(**KEY)
    assert served.delete() == "DELETE_COMPLETE"
    served.deploy(scaling_template(4))
    scaling.delete_scaling_policy(PolicyName="invocations", **KEY)
    assert served.delete() == "DELETE_COMPLETE"


def test_only_known_variants_are_scaled(served: Account) -> None:
    register = served.client(SCALING).register_scalable_target
    form = "expected endpoint/NAME/variant/VARIANT."
    for wrong, problem in [
        ("endpoint/ranker", form),
        ("endpoint/ranker/primary/variant", form),
        ("model/ranker/variant/primary", form),
        ("endpoint/ranker/variant/primary/x", form),
        ("endpoint/absent/variant/primary", ':endpoint/absent".'),
        ("endpoint/ranker/variant/absent", "has no variant absent; it has primary."),
    ]:
        message = refused(register, **KEY | {"ResourceId": wrong}, MinCapacity=1, MaxCapacity=2)
        assert (message.endswith(problem), described(served)[1]) == (True, [])


def test_what_is_not_there_is_not_scaled_and_has_no_tags(served: Account) -> None:
    scaling, copies = served.client(SCALING), "sagemaker:inference-component:DesiredCopyCount"
    key = KEY | {"ResourceId": "inference-component/x", "ScalableDimension": copies}
    message = refused(scaling.register_scalable_target, **key, MinCapacity=1, MaxCapacity=7)
    assert "Could not find inference component" in message
    message = refused(scaling.delete_scaling_policy, PolicyName="absent", **KEY)
    assert message == "No scaling policy found for policy name: absent"
    arn = "arn:aws:application-autoscaling:us-east-1:111111111111:scalable-target/0"
    assert scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] == {}


def test_a_target_brings_the_count_into_its_range(served: Account) -> None:
    served.scale(least=3, most=4)
    scaling = served.client(SCALING)
    (target,) = scaling.describe_scalable_targets(**OF_SAGEMAKER)["ScalableTargets"]
    endpoint = served.client("sagemaker").describe_endpoint(EndpointName="ranker")
    (variant,) = endpoint["ProductionVariants"]
    scaling.deregister_scalable_target(**KEY)
    role = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    path = "role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
    assert target["RoleARN"].endswith(f"{path}/{role}")
    assert (variant["DesiredInstanceCount"], described(served)[1]) == (3, [])


# --- models and configurations
def test_models_and_configurations_are_listed_and_need_a_role(served: Account) -> None:
    sagemaker = served.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    (config,) = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    assert model["ModelName"].startswith("served-Model-")
    assert config["EndpointConfigName"].startswith("served-Config-")

    create, role = sagemaker.create_model, f"arn:aws:iam::{served.number}:role/absent"
    message = refused(create, ModelName="m", ExecutionRoleArn=role)
    assert message == "You must provide either PrimaryContainer or Containers."
    model = {"ModelName": "m", "PrimaryContainer": {"Image": "i"}}
    arn = f"arn:aws:sagemaker:*:{served.number}:endpoint/ranker"
    condition = json.dumps({"ArnLike": {"aws:SourceArn": arn}})
    trusts = {
        "lambda": TRUST.replace("sagemaker.", "lambda."),
        "endpoint": TRUST.replace('"Action"', f'"Condition": {condition}, "Action"'),
    }
    for name, trust in trusts.items():
        served.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    for name in ("absent", *trusts):
        arn = f"arn:aws:iam::{served.number}:role/{name}"
        message = refused(create, ExecutionRoleArn=arn, **model)
        assert message.startswith(f"Could not assume role {arn}.")


def test_a_frequency_is_one_that_sagemaker_lists() -> None:
    for seconds in [10, 30, 60, 120, 180, 240, 300]:
        check_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}})
    for seconds in [9, 11, 20, 59, 61, 301]:
        with pytest.raises(SageMakerError, match="valid values: 10, 30, 60, 120, 180, 240, 300"):
            check_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}})


def pool(kind: str, priority: int) -> dict[str, Any]:
    return {"InstanceType": kind, "Priority": priority}


def test_pools_differ_in_type_and_priority() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"InstanceType": "a", "InstancePools": [pool("b", 1)]}, "InstancePools, not both"),
        ({"InstancePools": [pool("a", 1), pool("b", 1)]}, "Priority must differ"),
        ({"InstancePools": [pool("a", 1), pool("a", 2)]}, "InstanceType must differ"),
    ]
    for variant, problem in wrong:
        with pytest.raises(SageMakerError, match=problem):
            check_pools(variant)
    check_pools({"InstanceType": "a"})
    check_pools({"InstancePools": [pool("a", 1), pool("b", 2)]})
