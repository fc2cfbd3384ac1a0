"""The properties of scaling as CloudFormation has them: targets, tracking, steps, sleep, objective."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.parameters.loading import ValidFile
from infra.parameters.placement import find_placement
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import (
    ScalingProperties,
    build_scaling_properties,
    build_sleep_policies,
    build_step_policies,
    build_tracking_policies,
    choose_cooldowns,
)
from infra.policy.derived_settings import Cooldowns
from tests.conftest import VALID

Read = Callable[[str], ValidFile]
WAITS = Cooldowns(out_seconds=70, in_seconds=140, out_reason="", in_reason="")
NUMBERS = Scaling(
    max_rps_per_instance=10, max_concurrency_per_instance=8, max_backlog_per_instance=6,
    provisioned_use_percent=70, safety_factor=0.5,
)  # fmt: skip


def properties_of(file: ValidFile, name: str = "primary") -> ScalingProperties:
    placed = find_placement(file.environment, name)
    assert placed is not None
    return build_scaling_properties(file.environment, placed)


@pytest.mark.parametrize("copies", [False, True])
def test_each_number_is_tracked_at_its_safe_share(*, copies: bool) -> None:
    built = build_tracking_policies(NUMBERS, WAITS, copies=copies)
    policies = {each.name: each.properties("ranker") for each in built}
    kinds = {policy["PolicyType"] for policy in policies.values()}
    kind = "TargetTrackingScalingPolicyConfiguration"
    tracked = {name: policy[kind] for name, policy in policies.items()}
    assert kinds == {"TargetTrackingScaling"}
    assert {name: each["TargetValue"] for name, each in tracked.items()} == {
        "Tracking": 10 * 0.5 * 60,  # requests a minute
        "Concurrency": 4,
        "Provisioned": 0.7,  # a share
        "Backlog": 3,
    }
    told = {(each["ScaleOutCooldown"], each["ScaleInCooldown"]) for each in tracked.values()}
    assert told == {(70, 140)}
    metrics = {
        name: each["PredefinedMetricSpecification"]["PredefinedMetricType"]
        for name, each in tracked.items()
        if name != "Backlog"
    }
    of_variant = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    of_copy = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
    assert metrics == {
        "Tracking": "SageMakerInferenceComponentInvocationsPerCopy"
        if copies
        else "SageMakerVariantInvocationsPerInstance",
        "Concurrency": of_copy if copies else of_variant,
        "Provisioned": "SageMakerVariantProvisionedConcurrencyUtilization",
    }
    assert tracked["Backlog"]["CustomizedMetricSpecification"] == {
        "Dimensions": [{"Name": "EndpointName", "Value": "ranker"}],
        "MetricName": "ApproximateBacklogSizePerInstance",
        "Namespace": "AWS/SageMaker",
        "Statistic": "Average",
    }
    assert [*build_tracking_policies(Scaling(), WAITS)] == []


def test_steps_reach_from_bound_to_bound_and_the_last_is_open() -> None:
    steps: list[Any] = [
        {"above_rps": 9, "change": 3}, {"above_rps": 5, "change": 1},
        {"below_rps": 2, "change": -1}, {"below_rps": 1, "change": -2},
    ]  # fmt: skip
    scaling = Scaling.model_validate({"steps": steps})
    out, back = build_step_policies(scaling, WAITS, period_seconds=30)
    assert (out.name, out.bound_rps, back.name, back.bound_rps) == ("Out", 5, "In", 2)
    ways = [each.policy["StepScalingPolicyConfiguration"] for each in (out, back)]
    assert {each["AdjustmentType"] for each in ways} == {"ChangeInCapacity"}
    assert [each["Cooldown"] for each in ways] == [70, 70]
    lower, upper = "MetricIntervalLowerBound", "MetricIntervalUpperBound"
    assert ways[0]["StepAdjustments"] == [
        {lower: 0, upper: (9 - 5) * 30, "ScalingAdjustment": 1},
        {lower: (9 - 5) * 30, "ScalingAdjustment": 3},
    ]
    assert ways[1]["StepAdjustments"] == [
        {upper: 0, lower: (1 - 2) * 30, "ScalingAdjustment": -1},
        {upper: (1 - 2) * 30, "ScalingAdjustment": -2},
    ]
    alarms = [out.alarm, back.alarm]
    conditions = [(each["ComparisonOperator"], each["Threshold"]) for each in alarms]
    above, below = ("GreaterThanOrEqualToThreshold", 150), ("LessThanOrEqualToThreshold", 60)
    assert conditions == [above, below]  # 5 and 2 a second, in 30 s
    # Two periods of 30 s in each minute.
    assert [each["EvaluationPeriods"] for each in alarms] == [2 * out.minutes, 2 * back.minutes]
    only_up = Scaling.model_validate({"steps": steps[:2]})
    assert [each.name for each in build_step_policies(only_up, WAITS, period_seconds=60)] == ["Out"]


@pytest.mark.parametrize(("minutes", "cooldown"), [(2, 120), (5, 300), (15, 300)])
def test_a_refused_request_wakes_and_quiet_minutes_end_copies(minutes: int, cooldown: int) -> None:
    wake, asleep = build_sleep_policies(minutes)
    assert [(each.name, each.alarm_ending, each.metric) for each in (wake, asleep)] == [
        ("Wake", "wake", "NoCapacityInvocationFailures"),
        ("Asleep", "sleep", "InvocationsPerCopy"),
    ]
    configured = [each.policy["StepScalingPolicyConfiguration"] for each in (wake, asleep)]
    given = [(each["AdjustmentType"], each["Cooldown"]) for each in configured]
    assert given == [("ChangeInCapacity", cooldown), ("ExactCapacity", 60)]
    assert [each["StepAdjustments"] for each in configured] == [
        [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
        [{"MetricIntervalUpperBound": 0, "ScalingAdjustment": 0}],
    ]
    assert wake.alarm == {
        "ComparisonOperator": "GreaterThanOrEqualToThreshold", "Threshold": 1,
        "EvaluationPeriods": 1, "DatapointsToAlarm": 1, "TreatMissingData": "notBreaching",
    }  # fmt: skip
    assert asleep.alarm == {
        "ComparisonOperator": "LessThanOrEqualToThreshold", "Threshold": 0,
        "EvaluationPeriods": minutes, "DatapointsToAlarm": minutes,
        "TreatMissingData": "notBreaching",
    }  # fmt: skip


def test_a_day_has_the_target_the_policies_and_the_alarms_of_its_variant(environment: Read) -> None:
    scaled = VALID + (
        "min_instances = 2\nmax_instances = 6\nstart_seconds = 100\n[variants.primary.scaling]\n"
        "max_rps_per_instance = 10\nmax_concurrency_per_instance = 8\n"
        "steps = [{ above_rps = 5, change = 1 }, { below_rps = 2, change = -1 }]\n"
        'schedule = [{ at = "cron(0 7 * * ? *)", at_least = 3, timezone = "Europe/Berlin" },'
        ' { at = "cron(0 20 * * ? *)", at_most = 4 }]\n'
        "[alarms]\np99_latency_ms = 80\nwindow_minutes = 5\n"
    )
    found = properties_of(environment(scaled))
    assert found.resource == "endpoint/ranker/variant/primary"
    assert found.targets["Target"] == {
        "MinCapacity": 2, "MaxCapacity": 6, "ResourceId": found.resource,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ServiceNamespace": "sagemaker",
        "ScheduledActions": [
            {"ScalableTargetAction": {"MinCapacity": 3}, "Schedule": "cron(0 7 * * ? *)",
             "ScheduledActionName": "Scheduled0", "Timezone": "Europe/Berlin"},
            {"ScalableTargetAction": {"MaxCapacity": 4}, "Schedule": "cron(0 20 * * ? *)",
             "ScheduledActionName": "Scheduled1", "Timezone": "UTC"},
        ],
    }  # fmt: skip
    named = [(n, p["PolicyName"], p["ScalingTargetId"]) for n, p in found.policies.items()]
    expected = ("Tracking", "Concurrency", "StepsOut", "StepsIn")
    assert sorted(named) == sorted((name, name, "Target") for name in expected)
    shown = [
        (alarm["AlarmName"], alarm.get("AlarmActions"), alarm["MetricName"], alarm["Threshold"],
         alarm["EvaluationPeriods"], alarm["Period"])
        for alarm in found.alarms
    ]  # fmt: skip
    steps = {each.name: each.minutes for each in build_step_policies(
        Scaling.model_validate({"steps": [{"above_rps": 5, "change": 1}, {"below_rps": 2, "change": -1}]}),
        WAITS, period_seconds=60)}  # fmt: skip
    assert shown == [
        ("ranker-primary-p99-latency", None, "ModelLatency", 80_000, 5, 60),
        ("ranker-primary-5xx", None, "Invocation5XXErrors", 0.01, 5, 60),
        ("ranker-primary-steps-out", ["StepsOut"], "InvocationsPerInstance", 300, steps["Out"], 60),
        ("ranker-primary-steps-in", ["StepsIn"], "InvocationsPerInstance", 120, steps["In"], 60),
    ]
    latency, errors, *_ = found.alarms
    assert (latency["ExtendedStatistic"], "Statistic" in latency) == ("p99", False)
    assert errors["Statistic"] == "Average"
    assert found.page == 'ALARM("ranker-primary-p99-latency") OR ALARM("ranker-primary-5xx")'


def test_a_day_of_what_sleeps_scales_copies_and_of_what_is_held_nothing(environment: Read) -> None:
    found = properties_of(environment(VALID + "sleep_after_minutes = 3\nmax_instances = 2\n"))
    target = found.targets["Target"]
    assert (found.resource, target["ScalableDimension"]) == (
        "inference-component/ranker-primary", "sagemaker:inference-component:DesiredCopyCount",
    )  # fmt: skip
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 2)
    assert [*found.policies] == ["Wake", "Asleep"]
    wake, sleep = found.alarms[-2:]
    shown = [(each["AlarmName"], each["AlarmActions"]) for each in (wake, sleep)]
    assert shown == [("ranker-primary-wake", ["Wake"]), ("ranker-primary-sleep", ["Asleep"])]
    component = [{"Name": "InferenceComponentName", "Value": "ranker-primary"}]
    assert [each["Dimensions"] for each in (wake, sleep)] == [component, component]
    held = VALID + "max_instances = 2\nscaling = { max_rps_per_instance = 4, hold = true }\n"
    assert properties_of(environment(held)).targets == {}
    shadow = VALID + '[variants.copy]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
    assert properties_of(environment(f"{shadow}shadow = true\n"), "copy").page == ""


def test_cooldowns_are_the_tables_or_follow_the_start() -> None:
    both = Scaling(scale_out_cooldown_seconds=1, scale_in_cooldown_seconds=2)
    stated = choose_cooldowns(both, 500)
    assert (stated.out_seconds, stated.in_seconds) == (1, 2)
    slow, fast = choose_cooldowns(Scaling(), 900), choose_cooldowns(Scaling(), 100)
    assert slow.out_seconds > fast.out_seconds
    assert slow.in_seconds > fast.in_seconds
