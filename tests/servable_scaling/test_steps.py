"""Step scaling: bounds, kinds of adjustment, rounding, aggregation."""

from typing import Any

import pytest

from servable_scaling.scalable_target import ScalingPropertyError, StepScaling, parse_scaling_policy
from servable_scaling.scaling_policies import (
    aggregate_datapoints,
    compute_adjusted_capacity,
    find_step,
)
from tests.servable_scaling.minutes import steps


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


@pytest.mark.parametrize(
    ("percent", "capacity", "change"),
    [(127, 10, 12), (67, 1, 1), (-58, 1, -1), (-667, 1, -1), (-66, 10, -6), (0, 10, 0)],
)
def test_percents_are_rounded_as_the_guide_says(percent: int, capacity: int, change: int) -> None:
    # 12.7 to 12, .67 to 1, -.58 to -1, -6.6 to -6; below zero there is no capacity.
    policy = _policy((0, None, percent), AdjustmentType="PercentChangeInCapacity")
    assert compute_adjusted_capacity(policy, policy.steps[0], capacity) == max(0, capacity + change)


def test_a_change_is_added_and_an_exact_capacity_is_that_capacity() -> None:
    policy = _policy((0, None, 5))
    assert compute_adjusted_capacity(policy, policy.steps[0], 3) == 8
    policy = _policy((0, None, 5), AdjustmentType="ExactCapacity")
    assert compute_adjusted_capacity(policy, policy.steps[0], 3) == 5


@pytest.mark.parametrize(
    ("kind", "value"), [(None, 60), ("Average", 60), ("Minimum", 50), ("Maximum", 80)]
)
def test_datapoints_are_aggregated_as_the_policy_says(kind: str | None, value: float) -> None:
    policy = _policy((0, None, 1), MetricAggregationType=kind)
    assert aggregate_datapoints(policy, [50, 50, 80]) == value


@pytest.mark.parametrize(
    ("adjustments", "problem"),
    [
        ([], "at least one"),
        ([(0, 10, 1), (20, None, 2)], "gap or overlap"),
        ([(0, 20, 1), (10, None, 2)], "gap or overlap"),
        ([(None, None, 1)], "cannot both be null"),
        ([(0, 10, 1)], "whose upper bound is null"),
        ([(-10, 0, -1)], "whose lower bound is null"),
        ([(None, 0, 1), (None, 10, 1)], "gap or overlap"),
    ],
)
def test_steps_that_aws_refuses_are_refused(adjustments: list[Any], problem: str) -> None:
    with pytest.raises(ScalingPropertyError, match=problem):
        _policy(*adjustments)


def test_an_exact_capacity_below_zero_and_another_type_of_policy_are_refused() -> None:
    with pytest.raises(ScalingPropertyError, match="at least 0"):
        _policy((0, None, -1), AdjustmentType="ExactCapacity")
    with pytest.raises(ScalingPropertyError, match="Policy ahead: only"):
        parse_scaling_policy({"PolicyName": "ahead", "PredictiveScalingPolicyConfiguration": {}})
