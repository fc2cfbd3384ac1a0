"""Scaling and alarms of a stack against those that are live, and the commands that write alarms again."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from servable.verify.alarms import compare_alarms
from servable.verify.deployed import UNKNOWN, Resource
from servable.verify.difference import RESTORE, Difference
from servable.verify.scaling import compare_scaling
from tests.servable.verify.answering import AnsweringAccount, keys, resource, stack

ID, DIMENSION = "endpoint/ranker/variant/primary", "sagemaker:variant:DesiredInstanceCount"
WHERE: dict[str, Any] = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": ID,
    "ScalableDimension": DIMENSION,
}
TRACKING = {"TargetValue": 70, "ScaleInCooldown": 600}
STEPS = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 1}]}
DAILY = {
    "ScheduledActionName": "day",
    "Schedule": "cron(0 7 * * ? *)",
    "ScalableTargetAction": {"MinCapacity": 3, "MaxCapacity": 9},
}


class Live:
    """What Application Auto Scaling answers; as deployed until a test changes it."""

    def __init__(self) -> None:
        self.wanted: dict[str, Any] = WHERE | {"MinCapacity": 1, "MaxCapacity": 4}
        self.targets = [dict(self.wanted)]
        self.policies: list[dict[str, Any]] = [
            {"PolicyName": "track", "PolicyType": "TargetTrackingScaling",
             "TargetTrackingScalingPolicyConfiguration": dict(TRACKING)},
            {"PolicyName": "step", "PolicyType": "StepScaling",
             "StepScalingPolicyConfiguration": dict(STEPS)},
        ]  # fmt: skip
        self.actions: list[dict[str, Any]] = []

    def find(self, *, scaled: bool = True) -> list[Difference]:
        def targets(asked: Mapping[str, Any]) -> Mapping[str, Any]:
            ids = asked.get("ResourceIds")
            found = [one for one in self.targets if ids is None or one["ResourceId"] in ids]
            return {"ScalableTargets": found}

        account = AnsweringAccount(
            DescribeScalableTargets=targets,
            DescribeScalingPolicies={"ScalingPolicies": [WHERE | each for each in self.policies]},
            DescribeScheduledActions={"ScheduledActions": [WHERE | each for each in self.actions]},
        )
        kind, of = "ApplicationAutoScaling::ScalingPolicy", f"{ID}|{DIMENSION}|sagemaker"
        track: dict[str, Any] = {"TargetTrackingScalingPolicyConfiguration": TRACKING}
        step: dict[str, Any] = {"StepScalingPolicyConfiguration": STEPS}
        resources = [
            resource("ApplicationAutoScaling::ScalableTarget", "t", **self.wanted),
            resource(kind, "a", PolicyName="track", ScalingTargetId=of, **track),
            resource(kind, "b", PolicyName="step", ScalingTargetId=of, **step),
        ]
        endpoint = resource("SageMaker::Endpoint", "ranker", EndpointName="ranker")
        return list(compare_scaling(stack(account, endpoint, *(resources if scaled else []))))


def test_scaling_as_deployed_has_no_difference() -> None:
    live = Live()
    assert live.find() == []
    defaults = {"Cooldown": 300, "MetricAggregationType": "Average"}
    live.policies[0]["TargetTrackingScalingPolicyConfiguration"]["DisableScaleIn"] = False
    live.policies[1]["StepScalingPolicyConfiguration"] |= defaults
    assert live.find() == []


def test_a_policy_that_works_in_another_way_is_a_difference() -> None:
    cases: list[tuple[int, str, dict[str, Any], object]] = [
        (0, "TargetTracking", {"DisableScaleIn": True}, False),
        (0, "TargetTracking", {"TargetValue": 50.0}, 70),
        (0, "TargetTracking", {"ScaleInCooldown": 1}, 600),
        (1, "Step", {"Cooldown": 10}, 300),
        (1, "Step", {"MetricAggregationType": "Maximum"}, "Average"),
        (1, "Step", {"MinAdjustmentMagnitude": 5}, "the default"),
    ]
    for at, kind, change, wanted in cases:
        live = Live()
        live.policies[at][f"{kind}ScalingPolicyConfiguration"].update(change)
        (found,) = live.find()
        name = live.policies[at]["PolicyName"]
        assert (found.kind, found.resource, found.wanted) == ("scaling policy", name, wanted)
        assert found.key.rsplit(".", 1)[-1] in change
        assert RESTORE in found.remedy


def test_bounds_suspension_and_schedules_are_compared() -> None:
    live = Live()
    state = {"DynamicScalingOutSuspended": True, "ScheduledScalingSuspended": False}
    live.targets[0] |= {"MaxCapacity": 40, "SuspendedState": state}
    bounds, suspended = live.find()
    assert (bounds.kind, bounds.key, bounds.wanted) == ("scaling bounds", "MaxCapacity", 4)
    assert (suspended.kind, suspended.key) == ("scaling suspended", "DynamicScalingOutSuspended")
    assert (
        "register-scalable-target --service-namespace sagemaker "
        f"--resource-id {ID} --scalable-dimension {DIMENSION} "
        "--suspended-state DynamicScalingOutSuspended=false --region us-east-1"
    ) in suspended.remedy
    live.targets[0]["MaxCapacity"] = 4
    live.wanted["SuspendedState"] = {"DynamicScalingOutSuspended": True}
    assert live.find() == []

    live = Live()
    live.wanted["ScheduledActions"] = [DAILY]
    live.actions = [dict(DAILY)]
    live.targets[0] |= {"MinCapacity": 3, "MaxCapacity": 9}
    assert live.find() == []
    live.targets[0]["MinCapacity"] = 2
    assert keys(live.find()) == [("scaling bounds", ID, "MinCapacity")]
    live.targets[0]["MinCapacity"] = 3
    live.actions = [{**DAILY, "Schedule": "cron(0 8 * * ? *)"}]
    assert keys(live.find()) == [("scheduled action", f"{ID}: day", "Schedule")]
    live.actions = []
    assert keys(live.find()) == [("scheduled action missing", f"{ID}: day", "")]
    live.actions = [dict(DAILY), {**DAILY, "ScheduledActionName": "mine"}]
    assert keys(live.find()) == [("scaling by hand", ID, "mine")]
    assert live.find()[0].wanted == "no such scheduled action"


def test_an_action_for_a_moment_in_the_past_may_be_gone_and_what_is_missing_is_named() -> None:
    for year, kinds in [(2020, []), (2999, ["scheduled action missing"])]:
        live = Live()
        once = {**DAILY, "Schedule": f"at({year}-12-24T18:00:00)", "Timezone": "Europe/Berlin"}
        live.wanted["ScheduledActions"] = [once]
        live.targets[0] |= {"MinCapacity": 3, "MaxCapacity": 9}
        assert [each.kind for each in live.find()] == kinds

    live = Live()
    live.policies, live.targets = live.policies[1:], []
    assert keys(live.find()) == [
        ("scaling target missing", ID, ""),
        ("scaling policy missing", "track", ""),
    ]

    live = Live()
    live.policies.append({"PolicyName": "mine", "PolicyType": "StepScaling"})
    assert keys(live.find()) == [("scaling by hand", ID, "mine")]
    live.policies = []
    (found,) = live.find(scaled=False)
    assert (found.kind, found.resource, found.key) == ("scaling by hand", ID, "MaxCapacity")
    assert (found.wanted, found.found) == ("no scaling", 4)
    live.targets[0]["ResourceId"] = "endpoint/ranker-2/variant/primary"
    assert live.find(scaled=False) == []


# --- alarms

TOPIC = "arn:aws:sns:us-east-1:111111111111:alarms"
METRIC = {
    "AlarmName": "ranker-cpu", "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 3,
    "Threshold": 90, "MetricName": "CPUUtilization", "Namespace": "/aws/sagemaker/Endpoints",
    "AlarmActions": [TOPIC],
}  # fmt: skip
COMPOSITE = {"AlarmName": "ranker-objective", "AlarmRule": 'ALARM("ranker-cpu")'}
OBJECTIVE = resource("CloudWatch::CompositeAlarm", "ranker-objective", **COMPOSITE)


def deployed(**more: Any) -> Resource:
    return resource("CloudWatch::Alarm", "ranker-cpu", **{**METRIC, **more})


def find(*resources: Resource, live: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return the differences where CloudWatch has these alarms."""

    def describe(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        assert len(asked["AlarmNames"]) <= asked["MaxRecords"] == 100
        found: dict[str, Any] = {"MetricAlarms": [], "CompositeAlarms": []}
        for alarm in live:
            if alarm["AlarmName"] in asked["AlarmNames"]:
                found["CompositeAlarms" if "AlarmRule" in alarm else "MetricAlarms"].append(alarm)
        return found

    return list(compare_alarms(stack(AnsweringAccount(DescribeAlarms=describe), *resources)))


def test_alarms_as_deployed_or_off_on_purpose_have_no_difference() -> None:
    assert find(deployed(), live=[{**METRIC, "ActionsEnabled": True}]) == []
    assert find(deployed(DatapointsToAlarm=2), live=[{**METRIC, "DatapointsToAlarm": 2}]) == []
    defaults = {"TreatMissingData": "missing", "DatapointsToAlarm": 3}
    assert find(deployed(), live=[{**METRIC, **defaults}]) == []

    live = [METRIC | {"AlarmName": f"alarm-{number}"} for number in range(201)]
    resources = [deployed(**alarm) for alarm in live]
    assert find(*resources, live=live) == []
    assert [each.resource for each in find(*resources, live=live[:-1])] == ["alarm-200"]

    off = {"ActionsEnabled": False}
    assert find(deployed(**off), live=[{**METRIC, **off}]) == []
    (on,) = find(deployed(**off), live=[METRIC | {"ActionsEnabled": True}])
    assert on.kind == "alarm changed"


def test_a_missing_alarm_is_named_with_the_command_that_writes_it() -> None:
    (found,) = find(deployed(), live=[])
    assert (found.kind, found.resource) == ("alarm missing", "ranker-cpu")
    begins = "it was deleted outside CloudFormation; a deployment won't recreate it; create it: `"
    assert found.remedy.startswith(begins)
    command = shlex.split(found.remedy.removeprefix(begins).removesuffix("`"))
    assert command[:5] == ["aws", "cloudwatch", "put-metric-alarm", "--region", "us-east-1"]
    assert json.loads(command[-1]) == METRIC
    names = [each.resource for each in find(OBJECTIVE, deployed(), live=[])]
    assert names == ["ranker-cpu", "ranker-objective"]
    assert "put-composite-alarm" in find(OBJECTIVE, live=[])[0].remedy

    properties = {key: value for key, value in METRIC.items() if key != "AlarmName"}
    unnamed = resource("CloudWatch::Alarm", "generated", **properties)
    assert find(unnamed, live=[{**METRIC, "AlarmName": "generated"}]) == []
    assert '"AlarmName":"generated"' in find(unnamed, live=[])[0].remedy
    (found,) = find(deployed(AlarmActions=[UNKNOWN]), live=[])
    assert (RESTORE in found.remedy, "put-metric-alarm" in found.remedy) == (True, False)


def test_what_was_changed_is_named() -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"Threshold": 1}, "alarm changed", "Threshold"),
        ({"TreatMissingData": "notBreaching"}, "alarm changed", "TreatMissingData"),
        ({"DatapointsToAlarm": 1}, "alarm changed", "DatapointsToAlarm"),
        ({"Unit": "Percent"}, "alarm changed", "Unit"),
        ({"ActionsEnabled": False}, "alarm actions disabled", "ActionsEnabled"),
        ({"AlarmActions": []}, "alarm without actions", "AlarmActions"),
        ({"AlarmActions": ["arn:aws:sns:other"]}, "alarm actions", "AlarmActions"),
        ({"OKActions": [TOPIC]}, "alarm actions", "OKActions"),
        ({"InsufficientDataActions": [TOPIC]}, "alarm actions", "InsufficientDataActions"),
    ]
    for change, kind, key in cases:
        (found,) = find(deployed(), live=[{**METRIC, **change}])
        assert (found.kind, found.key) == (kind, key)
        restores = "enable-alarm-actions --alarm-names ranker-cpu --region us-east-1"
        assert (restores if key == "ActionsEnabled" else "put-metric-alarm") in found.remedy


def test_a_suppressor_that_somebody_added_silences_a_composite_alarm() -> None:
    (found,) = find(OBJECTIVE, live=[{**COMPOSITE, "ActionsSuppressor": "quiet"}])
    assert (found.key, found.wanted, found.found) == ("ActionsSuppressor", "the default", "quiet")
