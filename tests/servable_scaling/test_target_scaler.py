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


def _stepped(desired: int = 4, **more: Any) -> Fleet:
    """+2 while Use is 50 or more, from `desired`."""
    policy = steps((0, None, 2), **more)
    return Fleet(desired, target=target(), policies={"step": policy}, alarms=[alarm("step")])


def test_a_capacity_outside_of_the_bounds_moves_inside_when_it_is_registered_only() -> None:
    fleet = Fleet(3, target=target(3))
    fleet.run([0], Numbers())
    fleet.desired = fleet.current = 1
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert fleet.run([1], Numbers()) == {1: 3}

    fleet = Fleet(3, target=target(3))
    fleet.run([0], Numbers())
    fleet.desired = fleet.current = 1
    assert fleet.run(range(1, 5), Numbers()) == {}


def test_no_policy_goes_beyond_the_bounds_which_is_told_once() -> None:
    assert tracked(2, range(1, 5), [500], bounds=target(1, 5)) == {3: 5}

    fleet = Fleet(3, target=target(2), policies={"track": tracking(50)})
    fleet.run(range(1, 30), Numbers(Use=[0]))
    assert (fleet.desired, fleet.reasons) == (2, ["AlreadyAtMinCapacity"])

    with pytest.raises(ScalingPropertyError, match="cannot be less than"):
        Fleet(target=target(5, 4))

    fleet = Fleet(5, target=target(1, 5), policies={"track": tracking(50)})
    fleet.run(range(1, 9), Numbers(Use=[500]))
    assert fleet.reasons == ["AlreadyAtMaxCapacity"]

    assert fleet.told[0]["NotScaledReasons"] == [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 5}]

    fleet = Fleet(5, target=target(1, 5), policies={"track": tracking(50)})
    fleet.run([index / 6 for index in range(6, 49)], Numbers(Use=[500]))
    assert fleet.reasons == ["AlreadyAtMaxCapacity"]


def test_a_scale_out_is_not_repeated_in_the_cooldown_after_it() -> None:
    fleet = _stepped(Cooldown=180)
    # Set at 1, there at 2, cooldown until 5.
    assert fleet.run(range(1, 9), Numbers(Use=[60])) == {1: 6, 5: 8}

    fleet = _stepped(Cooldown=180)
    fleet.start_minutes = 4
    # There at 5, cooldown until 8.
    assert fleet.run(range(1, 11), Numbers(Use=[60])) == {1: 6, 8: 8}

    policy = steps((0, None, 2))
    del policy["StepScalingPolicyConfiguration"]["Cooldown"]
    fleet = Fleet(4, target=target(), policies={"step": policy}, alarms=[alarm("step")])
    assert fleet.run(range(1, 10), Numbers(Use=[60])) == {1: 6, 7: 8}


def test_a_scale_in_blocks_the_next_one_in_its_cooldown_but_no_scale_out() -> None:
    assert tracked(9, range(1, 24), [10], ScaleInCooldown=180) == {15: 8, 19: 7, 23: 6}

    assert tracked(9, range(1, 20), [*[10] * 15, 100], ScaleInCooldown=900) == {
        15: 8, 18: 16, 19: 20,
    }  # fmt: skip

    down = steps((None, 0, -1), name="down", Cooldown=3600)
    up = steps((0, None, 4), name="up")
    fleet = Fleet(
        5,
        target=target(),
        policies={"down": down, "up": up},
        alarms=[alarm("down", 20, above=False), alarm("up", 80)],
    )
    assert fleet.run(range(1, 5), Numbers(Use=[10, 90, 10, 10])) == {1: 4, 2: 8, 3: 7}


def test_another_policy_and_a_schedule_do_not_wait_for_a_cooldown() -> None:
    fleet = Fleet(
        4, target=target(),
        policies={"step": steps((0, None, 2), Cooldown=600),
                  "late": steps((0, None, 1), name="late", Cooldown=600)},
        alarms=[alarm("step"), alarm("late", minutes=2)],
    )  # fmt: skip
    assert fleet.run(range(1, 4), Numbers(Use=[60])) == {1: 6, 2: 7}

    action = morning(MinCapacity=9)
    fleet = Fleet(
        4,
        target=target(ScheduledActions=[action]),
        policies={"step": steps((0, None, 2), Cooldown=3600)},
        alarms=[alarm("step")],
    )
    assert fleet.run(range(1, 6), Numbers(Use=[60])) == {1: 6, 3: 9}


TWO = {"a": tracking(50, "A", name="a"), "b": tracking(50, "B", name="b")}


def test_a_steps_way_in_is_not_blocked_and_out_goes_to_the_largest() -> None:
    fleet = Fleet(2, target=target(), policies=TWO)
    assert fleet.run(range(1, 4), Numbers(A=[90], B=[10])) == {3: 4}
    fleet = Fleet(2, target=target(), policies=TWO)
    assert fleet.run(range(1, 4), Numbers(A=[90], B=[140])) == {3: 6}
    fleet = Fleet(
        5,
        target=target(),
        policies={"a": TWO["a"], "down": steps((None, 0, -1), name="down")},
        alarms=[alarm("down", 20, above=False, metric="B")],
    )
    assert fleet.run(range(1, 3), Numbers(A=[48], B=[10])) == {1: 4, 2: 3}


def test_it_scales_in_only_if_all_that_scale_in_are_ready() -> None:
    fleet = Fleet(5, target=target(), policies=TWO)
    assert fleet.run(range(1, 40), Numbers(A=[10], B=[48])) == {}
    fleet = Fleet(5, target=target(), policies=TWO)
    assert fleet.run(range(1, 16), Numbers(A=[10], B=[10])) == {15: 4}
    fleet = Fleet(5, target=target(), policies=TWO)
    assert fleet.run(range(1, 40), Numbers(A=[10], B=[None])) == {}

    policies = {**TWO, "b": tracking(50, "B", name="b", DisableScaleIn=True)}
    fleet = Fleet(5, target=target(), policies=policies)
    assert fleet.run(range(1, 16), Numbers(A=[10], B=[48])) == {15: 4}


def _suspended(key: str, **more: Any) -> Fleet:
    return Fleet(
        5, target=target(SuspendedState={key: True}, **more), policies={"track": tracking(50)}
    )


def test_scaling_out_or_in_is_left_while_the_other_goes_on() -> None:
    fleet = _suspended("DynamicScalingOutSuspended")
    assert fleet.run(range(1, 9), Numbers(Use=[90])) == {}
    fleet = _suspended("DynamicScalingOutSuspended")
    assert fleet.run(range(1, 16), Numbers(Use=[10])) == {15: 4}
    assert _suspended("DynamicScalingInSuspended").run(range(1, 40), Numbers(Use=[10])) == {}


def test_a_schedule_is_left_and_an_alarm_in_breach_acts_on_resuming() -> None:
    action = morning(MinCapacity=9)
    fleet = _suspended("ScheduledScalingSuspended", ScheduledActions=[action])
    left = fleet.run(range(1, 5), Numbers())
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert left | fleet.run(range(5, 9), Numbers()) == {}

    fleet = _suspended("DynamicScalingOutSuspended")
    fleet.run(range(1, 9), Numbers(Use=[90]))
    fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
    assert fleet.run([9], Numbers(Use=[90])) == {9: 9}


def test_nothing_scales_during_an_update_or_while_instances_start() -> None:
    fleet = Fleet(2, target=target(), policies={"track": tracking(50)})
    fleet.updating = True
    assert fleet.run(range(1, 9), Numbers(Use=[90])) == {}
    assert fleet.reasons == ["TargetServicePutResourceAsUnscalable"]

    fleet.updating = False
    assert fleet.run([9], Numbers(Use=[90])) == {9: 4}

    fleet = _stepped()
    fleet.start_minutes = 5
    assert fleet.run(range(1, 8), Numbers(Use=[60])) == {1: 6, 6: 8}

    fleet = Fleet(2, target=target(ScheduledActions=[morning(MinCapacity=6)]))
    fleet.run([0], Numbers())
    fleet.updating = True
    fleet.run(range(1, 9), Numbers())
    assert fleet.told[0]["StatusCode"] == "Failed"
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 1


def test_what_runs_is_told_in_awss_words() -> None:
    fleet = _stepped()
    fleet.start_minutes = 5
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

    fleet = _stepped()
    fleet.start_minutes = 9
    fleet.run([1], Numbers(Use=[60, 10]))
    fleet.desired = 3
    fleet.run([2], Numbers(Use=[60, 10]))
    assert fleet.told[0]["StatusCode"] == "Overridden"

    policy = steps((0, None, 0), AdjustmentType="PercentChangeInCapacity")
    fleet = Fleet(4, target=target(), policies={"step": policy}, alarms=[alarm("step")])
    fleet.run([1], Numbers(Use=[60]))
    assert fleet.told[0]["NotScaledReasons"] == [
        {"Code": "AlreadyAtDesiredCapacity", "CurrentCapacity": 4}
    ]


def test_it_succeeds_with_the_instances_or_fails_with_a_reason() -> None:
    fleet = _stepped()
    fleet.start_minutes = 5
    fleet.run(range(1, 7), Numbers(Use=[60, 10]))
    assert (fleet.told[0]["StatusMessage"], fleet.told[0]["EndTime"]) == (
        "Successfully set desired instance count to 6. Change successfully fulfilled by sagemaker.",
        at(6),
    )

    fleet = _stepped()
    fleet.run([1], Numbers(Use=[60, 10]))
    fleet.failure = "no capacity"
    fleet.run([2], Numbers(Use=[60, 10]))
    assert fleet.told[0]["StatusMessage"] == (
        "Failed to set desired instance count to 6. Reason: no capacity"
    )

    fleet = _stepped(Cooldown=3600)
    fleet.run([1], Numbers(Use=[60]))
    fleet.failure, fleet.desired = "no capacity", 4
    assert fleet.run([2], Numbers(Use=[60])) == {2: 6}
