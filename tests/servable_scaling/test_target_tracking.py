"""Target tracking, minute by minute, and the numbers that AWS prints in its guides, computed by hand.

The minutes rest on the alarms that were seen in exported policies (3 of 3, 15 of 15): AWS prints none.
Sources of the guides (2026-11-22): step-scaling-policy-overview.html and
target-tracking-scaling-policy-overview.html of
https://docs.aws.amazon.com/autoscaling/application/userguide/, API_PutScalingPolicy.html of its API
reference, as-using-sqs-queue.html of EC2 Auto Scaling's guide.
"""

from datetime import datetime
from typing import Any

import pytest

from servable_scaling.scalable_target import (
    ScaledTarget,
    ScalingPropertyError,
    TargetTracking,
    parse_scaling_policy,
)
from servable_scaling.scaling_policies import build_alarm_requests
from servable_scaling.schedule import ActionSchedule
from tests.servable_scaling.minutes import (
    RESOURCE,
    Fleet,
    Numbers,
    alarm,
    at,
    steps,
    target,
    tracked,
    tracking,
)


def _alarms(**more: Any) -> dict[str, dict[str, Any]]:
    policy = parse_scaling_policy(tracking(70, **more))
    assert isinstance(policy, TargetTracking)
    return build_alarm_requests(policy, ScaledTarget.from_properties(target()), suffix="uuid")


def test_a_target_of_70_has_alarms_at_70_and_63_or_a_sum_of_invocations() -> None:
    shown = [(each["Threshold"], each["AlarmName"]) for each in _alarms().values()]
    name = f"TargetTracking-{RESOURCE}-Alarm"
    assert shown == [(70, f"{name}High-uuid"), (63, f"{name}Low-uuid")]
    assert list(_alarms(DisableScaleIn=True)) == ["AlarmHigh"]

    predefined = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    high = _alarms(PredefinedMetricSpecification=predefined)["AlarmHigh"]
    found = (high["MetricName"], high["Statistic"], high["Period"])
    assert found == ("InvocationsPerInstance", "Sum", 60)

    policy = tracking(70, PredefinedMetricSpecification={"PredefinedMetricType": "ECSService"})
    with pytest.raises(ScalingPropertyError, match="allowed: SageMakerVariantInvocationsPer"):
        Fleet(1, policy)


def test_it_adds_in_proportion_after_three_minutes_above_the_target() -> None:
    # Above 50 in minutes 3, 4, 5, seen when they are over; 2 x 90 / 50 = 3.6.
    assert tracked(2, range(1, 10), [40, 40, 40, 90, 90, 90, 48]) == {6: 4}
    assert tracked(2, range(1, 10), [48, 90, 90, 48, 90, 90, 48]) == {}
    assert tracked(2, range(1, 10), [50]) == {}
    assert Fleet(0, tracking(5), bounds=target(0)).run(range(1, 4), Numbers(Use=[6])) == {3: 1}
    fleet = Fleet(2, tracking(), metric_delay_seconds=120)
    assert fleet.run(range(1, 9), Numbers(Use=[90, 90, 90, 48])) == {5: 4}


def test_it_removes_a_tenth_after_fifteen_minutes_and_one_of_two_at_half_of_the_target() -> None:
    # 5 x 35 / 50 = 3.5: four would do, so one goes; then 35 x 5 / 4 = 43.75, and 4 x 43.75 / 3 > 50.
    assert tracked(5, range(1, 30), [48, *[35] * 15, 43.75]) == {16: 4}
    assert tracked(9, range(1, 18), [10]) == {15: 8, 16: 7, 17: 6}
    assert tracked(40, range(1, 17), [10], bounds=target(most=50)) == {15: 36, 16: 33}
    for use, left in [(25, 1), (25.1, 2)]:
        fleet = Fleet(2, tracking())
        fleet.run(range(1, 20), Numbers(Use=[use]))
        assert fleet.desired == left
    fleet = Fleet(2, tracking(), bounds=target(0))
    fleet.run(range(1, 30), Numbers(Use=[0]))
    assert fleet.desired == 0
    assert tracked(5, range(1, 40), [1], DisableScaleIn=True) == {}


def test_missing_data_scale_neither_way_and_then_it_goes_on() -> None:
    assert tracked(3, range(1, 40), [None]) == {}
    # Two extra datapoints are looked at, so that the first above the target is found when it is as
    # old as the third: 3 x 60 / 50 = 3.6.
    assert tracked(3, range(1, 40), [*[None] * 20, 60, 60, 60, 48]) == {23: 4}


def test_metric_math_is_followed() -> None:
    sent = {"Metric": {"Namespace": "Own", "MetricName": "Sent"}, "Stat": "Sum"}
    of_all = {"Id": "all", "MetricStat": sent, "ReturnData": False}
    math = {"Id": "each", "Expression": "all / 4", "ReturnData": True}
    fleet = Fleet(4, tracking(10, CustomizedMetricSpecification={"Metrics": [of_all, math]}))
    assert fleet.run(range(1, 5), Numbers(Sent=[60])) == {3: 6, 4: 9}


def test_a_high_resolution_metric_adds_after_three_times_ten_seconds() -> None:
    high = {"PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"}
    policy = tracking(5, PredefinedMetricSpecification=high)
    fleet = Fleet(2, policy)
    numbers = Numbers(ConcurrentRequestsPerModel=[2, 10])
    assert fleet.run([index / 6 for index in range(1, 12)], numbers) == {1.5: 4}


PERCENT = {"AdjustmentType": "PercentChangeInCapacity"}
OUT = steps((0, 10, 0), (10, 20, 10), (20, None, 30), name="out", **PERCENT)
IN = steps((-10, 0, 0), (-20, -10, -10), (None, -20, -30), name="in", **PERCENT)


def test_the_guides_four_steps_lead_from_10_over_11_and_14_and_13_back_to_10_and_between_change_nothing() -> (
    None
):
    alarms = [alarm("out"), alarm("in", above=False)]
    fleet = Fleet(10, OUT, IN, alarms=alarms)
    assert fleet.run(range(1, 5), Numbers(Use=[60, 70, 40, 30])) == {1: 11, 2: 14, 3: 13, 4: 10}
    for use in [40.1, 50, 59.9]:
        assert Fleet(10, OUT, IN, alarms=alarms).run(range(1, 5), Numbers(Use=[use])) == {}


def test_target_tracking_scales_to_the_guides_numbers() -> None:
    # 1500 messages for 10 instances with a target of 100 make 15.
    assert Fleet(10, tracking(100)).run(range(1, 4), Numbers(Use=[150])) == {3: 15}
    # Adding one and a half instances adds two.
    assert tracked(3, range(1, 4), [75]) == {3: 5}
    # Where half an instance less would exceed the target, none is removed.
    fleet = Fleet(3, tracking())
    fleet.run(range(1, 20), Numbers(Use=[50 * 2.5 / 3]))
    assert (fleet.desired, fleet.reasons) == (3, ["AutoScalingAnticipatedFlapping"])


def test_steps_scale_to_the_guides_numbers() -> None:
    # Of three more and 200 percent more the larger wins.
    few, many = steps((0, None, 3), name="few"), steps((0, None, 200), name="many", **PERCENT)
    assert Fleet(10, few, many, bounds=target(most=50)).run([1], Numbers(Use=[60])) == {1: 30}
    # A step of 3 in the cooldown of a step of 2 adds 1.
    fleet = Fleet(10, steps((0, 10, 2), (10, None, 3), Cooldown=300))
    assert fleet.run(range(1, 4), Numbers(Use=[55, 55, 65])) == {1: 12, 3: 13}
    # 25 percent of 4 with a magnitude of 2 adds 2.
    policy = steps((0, None, 25), MinAdjustmentMagnitude=2, **PERCENT)
    assert Fleet(4, policy).run([1], Numbers(Use=[60])) == {1: 6}


def test_the_guides_cron_expressions_run_when_it_says() -> None:
    cases: list[tuple[str, datetime, bool]] = [
        ("cron(30 6 ? * MON *)", datetime(2026, 11, 23, 6, 30), True),
        ("cron(30 6 ? * MON *)", datetime(2026, 11, 24, 6, 30), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 8, 0), True),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 27, 17, 55), True),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 18, 0), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 8, 1), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 28, 8, 0), False),
    ]
    for expression, moment, runs in cases:
        assert ActionSchedule(expression, created=at(0)).is_due(moment) is runs
