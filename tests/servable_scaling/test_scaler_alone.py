"""One target's scaler, told of its resource and of alarms directly."""

from typing import Any

from servable_scaling.scalable_target import (
    COPIES,
    ScaledTarget,
    ScalingActivity,
    SuspendedState,
    parse_scaling_policy,
)
from servable_scaling.target_scaler import Breach, Decision, ScaledResource, TargetScaler
from tests.servable_scaling.minutes import START, at, steps, target, tracked, tracking


def scaler(least: int = 2, most: int = 9, **policies: dict[str, Any]) -> TargetScaler:
    return TargetScaler(
        ScaledTarget.from_properties(target(least, most)),
        created=START,
        policies={name: parse_scaling_policy(policy) for name, policy in policies.items()},
    )


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
    one = TargetScaler(
        ScaledTarget.from_properties({**target(0, 9), **of_copies}),
        created=START,
        policies={"track": parse_scaling_policy(tracking())},
    )
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
    assert tracked(
        2, range(1, 12), [100, 100, 100, 100, 100, 120, 120, 120, 130], ScaleOutCooldown=600
    ) == {3: 4, 6: 5, 9: 11}
