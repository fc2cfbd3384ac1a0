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
    scaling_policy,
)
from tests.servable_scaling.minutes import RESOURCE, steps, target, tracking


def test_a_target_has_its_bounds_and_its_service() -> None:
    assert ScaledTarget.of(target(2, 9)) == ScaledTarget(
        RESOURCE, "sagemaker:variant:DesiredInstanceCount", 2, 9, SuspendedState(), "sagemaker"
    )


def test_bounds_may_be_equal() -> None:
    assert ScaledTarget.of(target(3, 3)).maximum == 3


def test_a_maximum_below_the_minimum_is_refused() -> None:
    with pytest.raises(ScalingPropertyError, match="Maximum capacity cannot be less than minimum"):
        ScaledTarget.of(target(3, 2))


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
    assert ScaledTarget.of(target(SuspendedState=state)).suspended == suspended


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
    assert ScaledTarget.of(target(ScalableDimension=dimension)).noun == noun


@pytest.mark.parametrize(
    ("minimum", "maximum", "bounds"),
    [(None, None, (2, 9)), (4, None, (4, 9)), (None, 5, (2, 5)), (0, 0, (0, 0))],
)
def test_new_bounds_replace_those_that_they_name(
    minimum: int | None, maximum: int | None, bounds: tuple[int, int]
) -> None:
    found = ScaledTarget.of(target(2, 9)).within(minimum, maximum)
    assert (found.minimum, found.maximum) == bounds


@pytest.mark.parametrize(("capacity", "inside"), [(1, 2), (2, 2), (5, 5), (9, 9), (10, 9)])
def test_a_capacity_is_moved_inside_the_bounds(capacity: int, inside: int) -> None:
    assert ScaledTarget.of(target(2, 9)).clamp(capacity) == inside


def configuration(**more: Any) -> dict[str, Any]:
    given = {"TargetValue": 50, "ScaleOutCooldown": 0, "ScaleInCooldown": 7, **more}
    return {name: value for name, value in given.items() if value is not None}


# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
@pytest.mark.parametrize(
    ("more", "cooldowns"),
    [({}, (0, 7)), ({"ScaleOutCooldown": None, "ScaleInCooldown": None}, (300, 300))],
)
def test_a_tracking_policys_cooldowns_are_300_seconds_where_it_names_none(
    more: dict[str, Any], cooldowns: tuple[int, int]
) -> None:
    policy = scaling_policy(
        {"PolicyName": "p", "TargetTrackingScalingPolicyConfiguration": configuration(**more)}
    )
    assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == cooldowns


@pytest.mark.parametrize(("disabled", "scales_in"), [(None, True), (False, True), (True, False)])
def test_a_tracking_policy_scales_in_unless_that_is_disabled(
    disabled: bool | None, scales_in: bool
) -> None:
    more: dict[str, Any] = {} if disabled is None else {"DisableScaleIn": disabled}
    policy = scaling_policy(tracking(50, **more))
    assert isinstance(policy, TargetTracking)
    assert policy.scales_in is scales_in


def test_a_step_policy_has_its_steps_and_the_defaults() -> None:
    given = steps((0, 10.5, 1), (10.5, None, 2))
    del given["StepScalingPolicyConfiguration"]["Cooldown"]
    assert scaling_policy(given) == StepScaling(
        "step",
        "ChangeInCapacity",
        (StepAdjustment(0.0, 10.5, 1), StepAdjustment(10.5, None, 2)),
        300,
        300,
        "Average",
        0,
    )


def test_a_step_policy_has_one_cooldown_both_ways() -> None:
    policy = scaling_policy(steps((0, None, 1), Cooldown=42, MinAdjustmentMagnitude=3))
    assert isinstance(policy, StepScaling)
    assert (policy.out_cooldown_seconds, policy.in_cooldown_seconds) == (42, 42)
    assert policy.least_magnitude == 3


@pytest.mark.parametrize(
    "bounds",
    [
        [(None, None, 1)],
        [(0, 10, 1), (None, None, 2)],
        [(None, -5, -1), (0, None, 1)],
        [(-5, None, 1)],
        [(None, 5, -1)],
    ],
)
def test_steps_with_a_gap_or_without_an_end_are_refused(bounds: list[Any]) -> None:
    with pytest.raises(ScalingPropertyError, match="StepAdjustments"):
        scaling_policy(steps(*bounds))


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, None, 1)],
        [(None, 0, -1)],
        [(5, None, 1)],
        [(None, -5, -1)],
        [(10, None, 2), (0, 10, 1)],
        [(None, 0, -1), (0, None, 1)],
    ],
)
def test_steps_that_meet_are_taken_in_any_order(bounds: list[Any]) -> None:
    policy = scaling_policy(steps(*bounds))
    assert isinstance(policy, StepScaling)
    assert [one.adjustment for one in policy.steps] == [adjustment for *_, adjustment in bounds]


def test_an_exact_capacity_may_be_zero() -> None:
    policy = scaling_policy(steps((0, None, 0), AdjustmentType="ExactCapacity"))
    assert isinstance(policy, StepScaling)
    assert policy.steps[0].adjustment == 0


def action(**more: Any) -> ScheduledAction:
    return ScheduledAction.of({"ScheduledActionName": "night", "Schedule": "rate(1 day)", **more})


def test_a_scheduled_action_may_name_one_bound() -> None:
    found = action(ScalableTargetAction={"MinCapacity": 0}, Timezone="Europe/Berlin")
    assert (found.minimum, found.maximum, found.time_zone) == (0, None, "Europe/Berlin")


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-23T07:00:00Z",
        "2026-11-23T08:00:00+01:00",
        "2026-11-23T07:00:00",
        datetime(2026, 11, 23, 7),
        datetime(2026, 11, 23, 8, tzinfo=timezone(timedelta(hours=1))),
        int(datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp()),
        datetime(2026, 11, 23, 7, tzinfo=UTC).timestamp(),
    ],
)
def test_a_moment_of_a_template_or_of_the_api_is_utc(moment: Any) -> None:
    found = action(StartTime=moment, EndTime=moment)
    assert (found.start, found.end) == (datetime(2026, 11, 23, 7), datetime(2026, 11, 23, 7))


def test_a_schedule_without_bounds_in_time_has_none() -> None:
    assert (action().start, action().end) == (None, None)
