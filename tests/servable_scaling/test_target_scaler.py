"""Bounds, cooldowns, several policies, suspension, updates: one target, minute by minute.

Timelines are computed by hand from AWS's rules (sources: servable_scaling/target_scaler.py).
"""

from typing import Any

import pytest

from servable_scaling.scalable_target import ScalingPropertyError, SuspendedState
from tests.servable_scaling.minutes import (
    RESOURCE,
    Fleet,
    Numbers,
    alarm,
    at,
    morning,
    steps,
    target,
    tracked,
    tracking,
)


def _stepped(start_minutes: int = 0, **more: Any) -> Fleet:
    """+2 while Use is 50 or more, from 4."""
    return Fleet(4, steps((0, None, 2), **more), start_minutes=start_minutes)


def test_a_capacity_outside_of_the_bounds_moves_inside_when_it_is_registered_only() -> None:
    fleet = Fleet(3, bounds=target(3))
    fleet.run([0], Numbers())
    fleet.desired = fleet.current = 1
    assert fleet.run(range(1, 5), Numbers()) == {}
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert fleet.run([5], Numbers()) == {5: 3}


def test_no_policy_goes_beyond_the_bounds_which_is_told_once() -> None:
    assert tracked(2, range(1, 5), [500], bounds=target(1, 5)) == {3: 5}

    fleet = Fleet(3, tracking(), bounds=target(2))
    fleet.run(range(1, 30), Numbers(Use=[0]))
    assert (fleet.desired, fleet.reasons) == (2, ["AlreadyAtMinCapacity"])

    with pytest.raises(ScalingPropertyError, match="cannot be less than"):
        Fleet(bounds=target(5, 4))

    fleet = Fleet(5, tracking(), bounds=target(1, 5))
    fleet.run(range(1, 9), Numbers(Use=[500]))
    assert fleet.reasons == ["AlreadyAtMaxCapacity"]
    assert fleet.told[0]["NotScaledReasons"] == [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 5}]

    fleet = Fleet(5, tracking(), bounds=target(1, 5))
    fleet.run([index / 6 for index in range(6, 49)], Numbers(Use=[500]))
    assert fleet.reasons == ["AlreadyAtMaxCapacity"]


def test_a_scale_out_is_not_repeated_in_the_cooldown_after_it() -> None:
    # Set at 1, there at 2, cooldown until 5.
    assert _stepped(Cooldown=180).run(range(1, 9), Numbers(Use=[60])) == {1: 6, 5: 8}

    fleet = _stepped(4, Cooldown=180)
    # There at 5, cooldown until 8.
    assert fleet.run(range(1, 11), Numbers(Use=[60])) == {1: 6, 8: 8}

    policy = steps((0, None, 2))
    del policy["StepScalingPolicyConfiguration"]["Cooldown"]
    assert Fleet(4, policy).run(range(1, 10), Numbers(Use=[60])) == {1: 6, 7: 8}


def test_a_scale_in_blocks_the_next_one_in_its_cooldown_but_no_scale_out() -> None:
    assert tracked(9, range(1, 24), [10], ScaleInCooldown=180) == {15: 8, 19: 7, 23: 6}

    found = tracked(9, range(1, 20), [*[10] * 15, 100], ScaleInCooldown=900)
    assert found == {15: 8, 18: 16, 19: 20}

    down = steps((None, 0, -1), name="down", Cooldown=3600)
    up = steps((0, None, 4), name="up")
    fleet = Fleet(5, down, up, alarms=[alarm("down", 20, above=False), alarm("up", 80)])
    assert fleet.run(range(1, 5), Numbers(Use=[10, 90, 10, 10])) == {1: 4, 2: 8, 3: 7}


def test_another_policy_and_a_schedule_do_not_wait_for_a_cooldown() -> None:
    step, late = (steps((0, None, n), name=f"by{n}", Cooldown=600) for n in (2, 1))
    fleet = Fleet(4, step, late, alarms=[alarm("by2"), alarm("by1", minutes=2)])
    assert fleet.run(range(1, 4), Numbers(Use=[60])) == {1: 6, 2: 7}

    fleet = Fleet(4, step, bounds=target(ScheduledActions=[morning(MinCapacity=9)]))
    assert fleet.run(range(1, 6), Numbers(Use=[60])) == {1: 6, 3: 9}


A, B = (tracking(50, name, name=name) for name in ("A", "B"))


def test_a_steps_way_in_is_not_blocked_and_out_goes_to_the_largest() -> None:
    assert Fleet(2, A, B).run(range(1, 4), Numbers(A=[90], B=[10])) == {3: 4}
    assert Fleet(2, A, B).run(range(1, 4), Numbers(A=[90], B=[140])) == {3: 6}
    below = alarm("down", 20, above=False, metric="B")
    fleet = Fleet(5, A, steps((None, 0, -1), name="down"), alarms=[below])
    assert fleet.run(range(1, 3), Numbers(A=[48], B=[10])) == {1: 4, 2: 3}


def test_it_scales_in_only_if_all_that_scale_in_are_ready() -> None:
    assert Fleet(5, A, B).run(range(1, 40), Numbers(A=[10], B=[48])) == {}
    assert Fleet(5, A, B).run(range(1, 16), Numbers(A=[10], B=[10])) == {15: 4}
    assert Fleet(5, A, B).run(range(1, 40), Numbers(A=[10], B=[None])) == {}

    fleet = Fleet(5, A, tracking(50, "B", name="B", DisableScaleIn=True))
    assert fleet.run(range(1, 16), Numbers(A=[10], B=[48])) == {15: 4}


def _suspended(key: str, **more: Any) -> Fleet:
    return Fleet(5, tracking(), bounds=target(SuspendedState={key: True}, **more))


def test_scaling_out_or_in_is_left_while_the_other_goes_on() -> None:
    assert _suspended("DynamicScalingOutSuspended").run(range(1, 9), Numbers(Use=[90])) == {}
    assert _suspended("DynamicScalingOutSuspended").run(range(1, 16), Numbers(Use=[10])) == {15: 4}
    assert _suspended("DynamicScalingInSuspended").run(range(1, 40), Numbers(Use=[10])) == {}


def test_a_schedule_is_left_and_an_alarm_in_breach_acts_on_resuming() -> None:
    fleet = _suspended("ScheduledScalingSuspended", ScheduledActions=[morning(MinCapacity=9)])
    left = fleet.run(range(1, 5), Numbers())
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert left | fleet.run(range(5, 9), Numbers()) == {}

    fleet = _suspended("DynamicScalingOutSuspended")
    fleet.run(range(1, 9), Numbers(Use=[90]))
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert fleet.run([9], Numbers(Use=[90])) == {9: 9}


def test_nothing_scales_during_an_update_or_while_instances_start() -> None:
    fleet = Fleet(2, tracking())
    fleet.updating = True
    assert fleet.run(range(1, 9), Numbers(Use=[90])) == {}
    assert fleet.reasons == ["TargetServicePutResourceAsUnscalable"]

    fleet.updating = False
    assert fleet.run([9], Numbers(Use=[90])) == {9: 4}

    assert _stepped(5).run(range(1, 8), Numbers(Use=[60])) == {1: 6, 6: 8}

    fleet = Fleet(2, bounds=target(ScheduledActions=[morning(MinCapacity=6)]))
    fleet.run([0], Numbers())
    fleet.updating = True
    fleet.run(range(1, 9), Numbers())
    bounds = fleet.scaling.scalers[RESOURCE].target
    assert (fleet.told[0]["StatusCode"], bounds.minimum) == ("Failed", 1)


def test_what_runs_is_told_in_awss_words() -> None:
    fleet = _stepped(5)
    fleet.run([1], Numbers(Use=[60]))
    assert fleet.told == [
        {
            "ActivityId": "0",
            "ServiceNamespace": "sagemaker",
            "ResourceId": RESOURCE,
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "Description": "Setting desired instance count to 6.",
            "Cause": "monitor alarm step-high in state ALARM triggered policy step",
            "StartTime": at(1),
            "StatusCode": "InProgress",
            "StatusMessage": "Successfully set desired instance count to 6. Waiting for change "
            "to be fulfilled by sagemaker.",
        }
    ]

    fleet = _stepped(9)
    fleet.run([1], Numbers(Use=[60, 10]))
    fleet.desired = 3
    fleet.run([2], Numbers(Use=[60, 10]))
    assert fleet.told[0]["StatusCode"] == "Overridden"

    fleet = Fleet(4, steps((0, None, 0), AdjustmentType="PercentChangeInCapacity"))
    fleet.run([1], Numbers(Use=[60]))
    shown = fleet.told[0]["NotScaledReasons"]
    assert shown == [{"Code": "AlreadyAtDesiredCapacity", "CurrentCapacity": 4}]


def test_it_succeeds_with_the_instances_or_fails_with_a_reason() -> None:
    fleet = _stepped(5)
    fleet.run(range(1, 7), Numbers(Use=[60, 10]))
    assert (fleet.told[0]["StatusMessage"], fleet.told[0]["EndTime"]) == (
        "Successfully set desired instance count to 6. Change successfully fulfilled by sagemaker.",
        at(6),
    )

    fleet = _stepped()
    fleet.run([1], Numbers(Use=[60, 10]))
    fleet.failure = "no capacity"
    fleet.run([2], Numbers(Use=[60, 10]))
    told = fleet.told[0]["StatusMessage"]
    assert told == "Failed to set desired instance count to 6. Reason: no capacity"

    fleet = _stepped(Cooldown=3600)
    fleet.run([1], Numbers(Use=[60]))
    fleet.failure, fleet.desired = "no capacity", 4
    assert fleet.run([2], Numbers(Use=[60])) == {2: 6}
