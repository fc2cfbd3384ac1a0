"""Bounds, cooldowns, several policies, suspension, updates: one target, minute by minute, or told directly.

Timelines are computed by hand from AWS's rules (sources: servable_scaling/target_scaler.py).
"""

from typing import Any

import pytest

from servable_scaling.scalable_target import (
    COPIES,
    ScaledTarget,
    ScalingActivity,
    ScalingPropertyError,
    SuspendedState,
    parse_scaling_policy,
)
from servable_scaling.target_scaler import Breach, Decision, ScaledResource, TargetScaler
from tests.servable_scaling.minutes import (
    KEY,
    RESOURCE,
    START,
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
    (told,) = fleet.told
    assert told == {
        **KEY, "ActivityId": "0", "StartTime": at(1), "StatusCode": "InProgress",
        "Description": "Setting desired instance count to 6.",
        "Cause": "monitor alarm step-high in state ALARM triggered policy step",
        "StatusMessage": "Successfully set desired instance count to 6. "
                         "Waiting for change to be fulfilled by sagemaker.",
    }  # fmt: skip

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
    words = "Successfully set desired instance count to 6. Change successfully fulfilled by "
    told = (fleet.told[0]["StatusMessage"], fleet.told[0]["EndTime"])
    assert told == (f"{words}sagemaker.", at(6))

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


BOUNDS = target(2, 9)


def scaler(bounds: dict[str, Any] = BOUNDS, **policies: dict[str, Any]) -> TargetScaler:
    parsed = {name: parse_scaling_policy(policy) for name, policy in policies.items()}
    return TargetScaler(ScaledTarget.from_properties(bounds), created=START, policies=parsed)


def high(policy: str, value: float) -> Breach:
    return Breach(policy, f"{policy}-high", [value], 50, upward=True)


def low(policy: str, value: float) -> Breach:
    return Breach(policy, f"{policy}-low", [value], 45, upward=False)


def codes(decision: Decision) -> list[str]:
    return [one.not_scaled["Code"] for one in decision.activities if one.not_scaled]


def test_registering_moves_the_capacity_inside_once_when_it_can_and_keeps_the_rest() -> None:
    for desired, inside, cause in [
        (1, 2, "minimum capacity was set to 2"),
        (12, 9, "maximum capacity was set to 9"),
    ]:
        decision = scaler().move_inside_bounds(at(0), ScaledResource(desired, desired))
        assert (decision.desired, [one.cause for one in decision.activities]) == (inside, [cause])
    for desired in [2, 5, 9]:
        decision = scaler().move_inside_bounds(at(0), ScaledResource(desired, desired))
        assert (decision.desired, decision.activities) == (None, [])

    one = scaler()
    assert one.move_inside_bounds(at(0), ScaledResource(1, 1, updating=True)).desired is None
    assert one.advance(at(1), ScaledResource(1, 1, updating=True)).desired is None
    assert one.advance(at(2), ScaledResource(1, 1)).desired == 2

    one = scaler()
    one.move_inside_bounds(at(0), ScaledResource(3, 3))
    assert one.advance(at(1), ScaledResource(1, 1)).desired is None
    one.register(None, 5, None)
    assert one.advance(at(2), ScaledResource(8, 8)).desired == 5

    one = scaler()
    one.register(3, None, SuspendedState(scaling_in=True))
    one.register(None, 8, None)
    shown = (one.target.minimum, one.target.maximum, one.target.suspended)
    assert shown == (3, 8, SuspendedState(scaling_in=True))


def test_tracking_starts_no_first_copy_and_below_the_minimum_a_step_scales_out_to_it() -> None:
    of_copies = {"ScalableDimension": COPIES, "ResourceId": "inference-component/ranker"}
    one = scaler(target(0, 9, **of_copies), track=tracking())
    assert one.advance(at(1), ScaledResource(0, 0), [high("track", 60)]).desired is None
    one = scaler(step=steps((0, None, 1)))
    one.move_inside_bounds(at(0), ScaledResource(3, 3))
    assert one.advance(at(1), ScaledResource(0, 0), [high("step", 60)]).desired == 2


def test_a_change_is_in_progress_until_the_update_ends_it_or_a_newer_one() -> None:
    one = scaler(step=steps((0, None, 1)))
    (change,) = one.advance(at(1), ScaledResource(2, 2), [high("step", 60)]).activities
    one.advance(at(2), ScaledResource(3, 3, updating=True))
    assert change.status == "InProgress"
    one.advance(at(3), ScaledResource(3, 3))
    assert (change.status, change.ended) == ("Successful", at(3))

    one = scaler(step=steps((0, None, 1)))
    (first,) = one.advance(at(1), ScaledResource(2, 2), [high("step", 60)]).activities
    one.register(6, None, None)
    one.advance(at(2), ScaledResource(3, 2))
    assert (first.status, first.ended) == ("Overridden", at(2))

    one = scaler(step=steps((0, None, 1), Cooldown=600))
    (first,) = one.advance(at(1), ScaledResource(2, 2), [high("step", 60)]).activities
    one.register(6, None, None)
    (second,) = one.advance(at(2), ScaledResource(3, 2)).activities
    one.record_failure(first, at(2), "no capacity")
    one.advance(at(3), ScaledResource(6, 6))
    assert (first.status, second.status) == ("Failed", "Successful")

    one = scaler(step=steps((0, None, 1)))
    one.advance(at(1), ScaledResource(2, 2), [high("step", 60)])
    one.advance(at(2), ScaledResource(3, 3))
    one.advance(at(3), ScaledResource(3, 3), [high("step", 60)])
    numbers: list[ScalingActivity] = one.activities
    assert [activity.number for activity in numbers] == [0, 1]

    one = scaler(down=steps((None, 0, -1), name="down", Cooldown=600))
    one.advance(at(1), ScaledResource(6, 6), [low("down", 10)])
    one.advance(at(2), ScaledResource(5, 5))
    (change,) = one.advance(at(20), ScaledResource(5, 5), [low("down", 10)]).activities
    one.record_failure(change, at(20), "busy")
    assert one.advance(at(21), ScaledResource(5, 5), [low("down", 10)]).desired == 4


def test_what_changes_nothing_is_told_with_its_reason_and_again_after_the_alarm_was_silent() -> (
    None
):
    one = scaler(step=steps((0, 10, 0), (10, None, 2), Cooldown=600))
    one.advance(at(1), ScaledResource(4, 4), [high("step", 65)])
    one.advance(at(2), ScaledResource(6, 6))
    found = one.advance(at(3), ScaledResource(6, 6), [high("step", 55)])
    assert codes(found) == ["AlreadyAtDesiredCapacity"]

    one = scaler(step=steps((0, None, 1)))
    full = ScaledResource(9, 9)
    told = [codes(one.advance(at(1), full, [high("step", 60)]))]
    told.append(codes(one.advance(at(2), full, [high("step", 60)])))
    one.advance(at(3), full)
    told.append(codes(one.advance(at(4), full, [high("step", 60)])))
    assert told == [["AlreadyAtMaxCapacity"], [], ["AlreadyAtMaxCapacity"]]

    one = scaler(track=tracking())
    empty = Breach("track", "track-high", [], 50, upward=True)
    decision = one.advance(at(1), ScaledResource(3, 3), [empty])
    assert (decision.desired, decision.activities) == (None, [])

    decision = scaler().advance(at(1), ScaledResource(3, 3), [high("other", 90)])
    assert (decision.desired, decision.activities) == (None, [])


def test_the_smallest_scale_in_wins_unless_scale_out_is_suspended() -> None:
    one = scaler(few=steps((None, 0, -1), name="few"), many=steps((None, 0, -3), name="many"))
    assert one.advance(at(1), ScaledResource(8, 8), [low("few", 10), low("many", 10)]).desired == 7
    one = scaler(up=steps((0, None, 1), name="up"), down=steps((None, 0, -1), name="down"))
    one.register(None, None, SuspendedState(scaling_out=True))
    found = one.advance(at(1), ScaledResource(5, 5), [high("up", 60), low("down", 10)])
    assert found.desired is None


# "The capacity added by the initiating scale-out activity is calculated as part of the desired capacity for
# the next": of the cooldown that holds now the newest scale-out is the initiating one.
# https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html (2026-11-24)
def test_only_a_larger_scale_out_adds_in_a_cooldown() -> None:
    # 4 at 3 and 5 at 6, both from 2; 130 wants 6 from 2, which is larger: 11 from the 4 before the newest.
    use = [100, 100, 100, 100, 100, 120, 120, 120, 130]
    assert tracked(2, range(1, 12), use, ScaleOutCooldown=600) == {3: 4, 6: 5, 9: 11}
