"""Target tracking, minute by minute. Timelines are computed by hand.

The minutes rest on the alarms that were seen in exported policies (3 of 3, 15 of 15): AWS prints none.
"""

from typing import Any

import pytest

from servable_scaling.scalable_target import (
    ScaledTarget,
    ScalingPropertyError,
    TargetTracking,
    parse_scaling_policy,
)
from servable_scaling.scaling_policies import build_alarm_requests
from tests.servable_scaling.minutes import RESOURCE, Fleet, Numbers, target, tracked, tracking


def _alarms(**more: Any) -> dict[str, dict[str, Any]]:
    policy = parse_scaling_policy(tracking(70, **more))
    assert isinstance(policy, TargetTracking)
    return build_alarm_requests(policy, ScaledTarget.from_properties(target()), suffix="uuid")


def test_a_target_of_70_has_alarms_at_70_and_63_or_a_sum_of_invocations() -> None:
    assert [alarm["Threshold"] for alarm in _alarms().values()] == [70, 63]
    assert [alarm["AlarmName"] for alarm in _alarms().values()] == [
        f"TargetTracking-{RESOURCE}-AlarmHigh-uuid",
        f"TargetTracking-{RESOURCE}-AlarmLow-uuid",
    ]
    assert list(_alarms(DisableScaleIn=True)) == ["AlarmHigh"]

    predefined = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    high = _alarms(PredefinedMetricSpecification=predefined, CustomizedMetricSpecification=None)[
        "AlarmHigh"
    ]
    found = (high["MetricName"], high["Statistic"], high["Period"])
    assert found == ("InvocationsPerInstance", "Sum", 60)

    policy = tracking(70, PredefinedMetricSpecification={"PredefinedMetricType": "ECSService"})
    del policy["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
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
    metrics = [
        {
            "Id": "all",
            "MetricStat": {"Metric": {"Namespace": "Own", "MetricName": name}, "Stat": "Sum"},
        }
        | {"ReturnData": False}
        for name in ("Sent",)
    ]
    math = {"Id": "each", "Expression": "all / 4", "ReturnData": True}
    fleet = Fleet(4, tracking(10, CustomizedMetricSpecification={"Metrics": [*metrics, math]}))
    assert fleet.run(range(1, 5), Numbers(Sent=[60])) == {3: 6, 4: 9}


def test_a_high_resolution_metric_adds_after_three_times_ten_seconds() -> None:
    high = {"PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"}
    policy = tracking(5, PredefinedMetricSpecification=high)
    del policy["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
    fleet = Fleet(2, policy)
    numbers = Numbers(ConcurrentRequestsPerModel=[2, 10])
    assert fleet.run([index / 6 for index in range(1, 12)], numbers) == {1.5: 4}
