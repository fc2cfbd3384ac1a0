"""Targets, policies and scheduled actions from CloudFormation's or the API's properties."""

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
from tests.servable_scaling.minutes import RESOURCE, steps, target, tracking


def test_a_target_has_its_service_and_bounds_that_do_not_cross() -> None:
    assert ScaledTarget.from_properties(target(2, 9)) == ScaledTarget(
        RESOURCE, "sagemaker:variant:DesiredInstanceCount", 2, 9, SuspendedState(), "sagemaker"
    )
    assert ScaledTarget.from_properties(target(3, 3)).maximum == 3
    with pytest.raises(ScalingPropertyError, match="Maximum capacity cannot be less than minimum"):
        ScaledTarget.from_properties(target(3, 2))


@pytest.mark.parametrize(
    ("state", "suspended"),
    [
        (None, SuspendedState()),
        ({"DynamicScalingInSuspended": True}, SuspendedState(scaling_in=True)),
        ({"DynamicScalingOutSuspended": True}, SuspendedState(scaling_out=True)),
        ({"ScheduledScalingSuspended": True}, SuspendedState(scheduled=True)),
    ],
)
def test_each_kind_of_scaling_is_suspended_alone(
    state: dict[str, bool] | None, suspended: SuspendedState
) -> None:
    assert ScaledTarget.from_properties(target(SuspendedState=state)).suspended == suspended


@pytest.mark.parametrize(
    ("dimension", "noun"),
    [
        ("sagemaker:variant:DesiredInstanceCount", "desired instance count"),
        ("sagemaker:variant:DesiredProvisionedConcurrency", "desired provisioned concurrency"),
        ("sagemaker:inference-component:DesiredCopyCount", "desired copy count"),
        ("ecs:service:DesiredCount", "DesiredCount"),
    ],
)
def test_an_activity_names_what_is_scaled(dimension: str, noun: str) -> None:
    assert ScaledTarget.from_properties(target(ScalableDimension=dimension)).noun == noun


def test_new_bounds_replace_those_that_they_name_and_a_capacity_is_moved_inside() -> None:
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
        policy = parse_scaling_policy(
            {"PolicyName": "p", "TargetTrackingScalingPolicyConfiguration": configuration(**more)}
        )
        assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == cooldowns


def test_a_step_policy_has_its_steps_one_cooldown_and_the_defaults() -> None:
    given = steps((0, 10.5, 1), (10.5, None, 2))
    del given["StepScalingPolicyConfiguration"]["Cooldown"]
    assert parse_scaling_policy(given) == StepScaling(
        "step",
        "ChangeInCapacity",
        (StepAdjustment(0.0, 10.5, 1), StepAdjustment(10.5, None, 2)),
        300,
        300,
        "Average",
        0,
    )

    policy = parse_scaling_policy(steps((0, None, 1), Cooldown=42, MinAdjustmentMagnitude=3))
    assert isinstance(policy, StepScaling)
    assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == (42, 42)
    assert policy.least_magnitude == 3


def test_steps_that_meet_are_taken_in_any_order_and_others_refused() -> None:
    cases: list[list[tuple[int | None, int | None, int]]] = [
        [(0, None, 1)],
        [(None, 0, -1)],
        [(5, None, 1)],
        [(None, -5, -1)],
        [(10, None, 2), (0, 10, 1)],
        [(None, 0, -1), (0, None, 1)],
    ]
    for bounds in cases:
        policy = parse_scaling_policy(steps(*bounds))
        assert isinstance(policy, StepScaling)
        assert [one.adjustment for one in policy.steps] == [adjustment for *_, adjustment in bounds]
    cases = [
        [(None, None, 1)],
        [(0, 10, 1), (None, None, 2)],
        [(None, -5, -1), (0, None, 1)],
        [(-5, None, 1)],
        [(None, 5, -1)],
    ]
    for bounds in cases:
        with pytest.raises(ScalingPropertyError, match="StepAdjustments"):
            parse_scaling_policy(steps(*bounds))

    policy = parse_scaling_policy(steps((0, None, 0), AdjustmentType="ExactCapacity"))
    assert isinstance(policy, StepScaling)
    assert policy.steps[0].adjustment == 0


def action(**more: Any) -> ScheduledAction:
    return ScheduledAction.from_properties(
        {"ScheduledActionName": "night", "Schedule": "rate(1 day)", **more}
    )


def test_a_scheduled_action_may_name_one_bound_and_its_times_in_utc() -> None:
    found = action(ScalableTargetAction={"MinCapacity": 0}, Timezone="Europe/Berlin")
    assert (found.minimum, found.maximum, found.time_zone) == (0, None, "Europe/Berlin")
    assert (action().start, action().end) == (None, None)
    for moment in [
        "2026-11-23T07:00:00Z",
        "2026-11-23T08:00:00+01:00",
        "2026-11-23T07:00:00",
        datetime(2026, 11, 23, 7),
        datetime(2026, 11, 23, 8, tzinfo=timezone(timedelta(hours=1))),
        int(datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp()),
        datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp(),
    ]:
        found = action(StartTime=moment, EndTime=moment)
        assert (found.start, found.end) == (datetime(2026, 11, 23, 7), datetime(2026, 11, 23, 7))
