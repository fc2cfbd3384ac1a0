"""Application Auto Scaling acts: an endpoint's instances follow its policies, on a clock that stands still.

Minutes of tracking policies rest on the alarms that were seen on AWS (3 of 3, 15 of 15).
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.boto_members import named, scalable, tracking
from tests.servable_local.aws.deployed_templates import resource, serving
from tests.servable_local.aws.watched_endpoint import Watched

KEY = scalable()
TRACKING = resource(
    "ApplicationAutoScaling::ScalingPolicy",
    PolicyName="track",
    PolicyType="TargetTrackingScaling",
    ScalingTargetId={"Ref": "Target"},
    TargetTrackingScalingPolicyConfiguration=tracking(4, ScaleInCooldown=60, ScaleOutCooldown=60),
)


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
        target = resource(
            "ApplicationAutoScaling::ScalableTarget", **KEY, MinCapacity=1, MaxCapacity=6
        )
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
