"""Targets, policies, their steps and scheduled actions from CloudFormation's or the API's properties."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from servable_scaling.scalable_target import (
    ScaledTarget,
    ScalingPropertyError,
    ScheduledAction,
    StepAdjustment,
    StepScaling,
    SuspendedState,
    TargetTracking,
    parse_scaling_policy,
)
from servable_scaling.scaling_policies import (
    aggregate_datapoints,
    compute_adjusted_capacity,
    find_step,
)
from tests.servable_scaling.minutes import RESOURCE, steps, target, tracking


def test_a_target_has_its_service_and_bounds_and_each_kind_of_scaling_is_suspended_alone() -> None:
    assert ScaledTarget.from_properties(target(2, 9)) == ScaledTarget(
        RESOURCE, "sagemaker:variant:DesiredInstanceCount", 2, 9, SuspendedState(), "sagemaker"
    )
    assert ScaledTarget.from_properties(target(3, 3)).maximum == 3
    with pytest.raises(ScalingPropertyError, match="Maximum capacity cannot be less than minimum"):
        ScaledTarget.from_properties(target(3, 2))
    cases: list[tuple[dict[str, bool] | None, SuspendedState]] = [
        (None, SuspendedState()),
        ({"DynamicScalingInSuspended": True}, SuspendedState(scaling_in=True)),
        ({"DynamicScalingOutSuspended": True}, SuspendedState(scaling_out=True)),
        ({"ScheduledScalingSuspended": True}, SuspendedState(scheduled=True)),
    ]
    for state, suspended in cases:
        assert ScaledTarget.from_properties(target(SuspendedState=state)).suspended == suspended
    for minimum, maximum, bounds in [
        (None, None, (2, 9)),
        (4, None, (4, 9)),
        (None, 5, (2, 5)),
        (0, 0, (0, 0)),
    ]:
        found = ScaledTarget.from_properties(target(2, 9)).replace_bounds(minimum, maximum)
        assert (found.minimum, found.maximum) == bounds
    for capacity, inside in [(1, 2), (2, 2), (5, 5), (9, 9), (10, 9)]:
        assert ScaledTarget.from_properties(target(2, 9)).clamp(capacity) == inside


def test_an_activity_names_what_is_scaled() -> None:
    for dimension, noun in [
        ("sagemaker:variant:DesiredInstanceCount", "desired instance count"),
        ("sagemaker:variant:DesiredProvisionedConcurrency", "desired provisioned concurrency"),
        ("sagemaker:inference-component:DesiredCopyCount", "desired copy count"),
        ("ecs:service:DesiredCount", "DesiredCount"),
    ]:
        assert ScaledTarget.from_properties(target(ScalableDimension=dimension)).noun == noun


def configuration(**more: Any) -> dict[str, Any]:
    given = {"TargetValue": 50, "ScaleOutCooldown": 0, "ScaleInCooldown": 7, **more}
    return {name: value for name, value in given.items() if value is not None}


def test_a_tracking_policy_scales_in_unless_disabled_with_cooldowns_of_300_seconds() -> None:
    for disabled, scales_in in [(None, True), (False, True), (True, False)]:
        more: dict[str, Any] = {} if disabled is None else {"DisableScaleIn": disabled}
        policy = parse_scaling_policy(tracking(50, **more))
        assert isinstance(policy, TargetTracking)
        assert policy.scales_in is scales_in
    # https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
    for more, cooldowns in [
        ({}, (0, 7)),
        ({"ScaleOutCooldown": None, "ScaleInCooldown": None}, (300, 300)),
    ]:
        kind = "TargetTrackingScalingPolicyConfiguration"
        policy = parse_scaling_policy({"PolicyName": "p", kind: configuration(**more)})
        assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == cooldowns


def test_a_step_policy_has_its_steps_one_cooldown_and_the_defaults() -> None:
    given = steps((0, 10.5, 1), (10.5, None, 2))
    del given["StepScalingPolicyConfiguration"]["Cooldown"]
    assert parse_scaling_policy(given) == StepScaling(
        "step", "ChangeInCapacity",
        (StepAdjustment(0.0, 10.5, 1), StepAdjustment(10.5, None, 2)),
        300, 300, "Average", 0,
    )  # fmt: skip
    policy = parse_scaling_policy(steps((0, None, 1), Cooldown=42, MinAdjustmentMagnitude=3))
    assert isinstance(policy, StepScaling)
    assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == (42, 42)
    assert policy.least_magnitude == 3


def test_steps_that_meet_are_taken_in_any_order() -> None:
    cases: list[list[tuple[int | None, int | None, int]]] = [
        [(0, None, 1)], [(None, 0, -1)], [(5, None, 1)], [(None, -5, -1)],
        [(10, None, 2), (0, 10, 1)], [(None, 0, -1), (0, None, 1)],
    ]  # fmt: skip
    for bounds in cases:
        policy = parse_scaling_policy(steps(*bounds))
        assert isinstance(policy, StepScaling)
        assert [one.adjustment for one in policy.steps] == [adjustment for *_, adjustment in bounds]
    policy = parse_scaling_policy(steps((0, None, 0), AdjustmentType="ExactCapacity"))
    assert isinstance(policy, StepScaling)
    assert policy.steps[0].adjustment == 0


def action(**more: Any) -> ScheduledAction:
    given = {"ScheduledActionName": "night", "Schedule": "rate(1 day)", **more}
    return ScheduledAction.from_properties(given)


def test_a_scheduled_action_may_name_one_bound_and_its_times_in_utc() -> None:
    found = action(ScalableTargetAction={"MinCapacity": 0}, Timezone="Europe/Berlin")
    assert (found.minimum, found.maximum, found.time_zone) == (0, None, "Europe/Berlin")
    assert (action().start, action().end) == (None, None)
    for moment in [
        "2026-11-23T07:00:00Z", "2026-11-23T08:00:00+01:00", "2026-11-23T07:00:00",
        datetime(2026, 11, 23, 7), datetime(2026, 11, 23, 8, tzinfo=timezone(timedelta(hours=1))),
        int(datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp()),
        datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp(),
    ]:  # fmt: skip
        found = action(StartTime=moment, EndTime=moment)
        assert (found.start, found.end) == (datetime(2026, 11, 23, 7), datetime(2026, 11, 23, 7))


def _policy(*adjustments: tuple[float | None, float | None, int], **more: Any) -> StepScaling:
    policy = parse_scaling_policy(steps(*adjustments, **more))
    assert isinstance(policy, StepScaling)
    return policy


def test_a_bound_belongs_to_the_step_beyond_it_and_what_none_covers_changes_nothing() -> None:
    for metric, adjustment in [(50, 1), (59.9, 1), (60, 2), (69.9, 2), (70, 3), (1e9, 3)]:
        step = find_step(_policy((0, 10, 1), (10, 20, 2), (20, None, 3)), metric, 50, upward=True)
        assert step is not None
        assert step.adjustment == adjustment
    for metric, adjustment in [(50, -1), (40.1, -1), (40, -2), (30.1, -2), (30, -3), (0, -3)]:
        policy = _policy((-10, 0, -1), (-20, -10, -2), (None, -20, -3))
        step = find_step(policy, metric, 50, upward=False)
        assert step is not None
        assert step.adjustment == adjustment
    assert find_step(_policy((10, None, 1)), 55, 50, upward=True) is None


def test_percents_are_rounded_as_the_guide_says_and_a_change_is_added() -> None:
    for percent, capacity, change in [
        (127, 10, 12),
        (67, 1, 1),
        (-58, 1, -1),
        (-667, 1, -1),
        (-66, 10, -6),
        (0, 10, 0),
    ]:
        # 12.7 to 12, .67 to 1, -.58 to -1, -6.6 to -6; below zero there is no capacity.
        policy = _policy((0, None, percent), AdjustmentType="PercentChangeInCapacity")
        shown = compute_adjusted_capacity(policy, policy.steps[0], capacity)
        assert shown == max(0, capacity + change)

    policy = _policy((0, None, 5))
    assert compute_adjusted_capacity(policy, policy.steps[0], 3) == 8
    policy = _policy((0, None, 5), AdjustmentType="ExactCapacity")
    assert compute_adjusted_capacity(policy, policy.steps[0], 3) == 5
    for kind, value in [(None, 60), ("Average", 60), ("Minimum", 50), ("Maximum", 80)]:
        policy = _policy((0, None, 1), MetricAggregationType=kind)
        assert aggregate_datapoints(policy, [50, 50, 80]) == value


def test_steps_that_aws_refuses_are_refused() -> None:
    cases: list[tuple[list[Any], str]] = [
        ([], "at least one"),
        ([(0, 10, 1), (20, None, 2)], "gap or overlap"),
        ([(0, 20, 1), (10, None, 2)], "gap or overlap"),
        ([(None, None, 1)], "cannot both be null"),
        ([(0, 10, 1)], "whose upper bound is null"),
        ([(-10, 0, -1)], "whose lower bound is null"),
        ([(None, 0, 1), (None, 10, 1)], "gap or overlap"),
        ([(0, 10, 1), (None, None, 2)], "cannot both be null"),
        ([(-5, None, 1)], "StepAdjustments"),
        ([(None, 5, -1)], "StepAdjustments"),
    ]
    for adjustments, problem in cases:
        with pytest.raises(ScalingPropertyError, match=problem):
            _policy(*adjustments)
    with pytest.raises(ScalingPropertyError, match="at least 0"):
        _policy((0, None, -1), AdjustmentType="ExactCapacity")
    with pytest.raises(ScalingPropertyError, match="Policy ahead: only"):
        parse_scaling_policy({"PolicyName": "ahead", "PredictiveScalingPolicyConfiguration": {}})
