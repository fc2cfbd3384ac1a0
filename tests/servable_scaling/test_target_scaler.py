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
    steps,
    target,
    tracking,
)


def _stepped(desired: int = 4, **more: Any) -> Fleet:
    """+2 while Use is 50 or more, from `desired`."""
    policy = steps((0, None, 2), **more)
    return Fleet(
        desired,
        target=target(),
        policies={"step": policy},
        alarms=[alarm("step")],
    )


class TestBounds:
    def test_registering_moves_the_capacity_inside_at_once(self) -> None:
        assert Fleet(1, target=target(3)).run([0], Numbers()) == {0: 3}
        assert Fleet(9, target=target(1, 5)).run([0], Numbers()) == {0: 5}

        fleet = Fleet(3, target=target(3))
        fleet.run([0], Numbers())
        fleet.desired = fleet.current = 1
        fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
        assert fleet.run([1], Numbers()) == {1: 3}

    def test_a_capacity_that_somebody_sets_outside_stays_until_a_policy_acts(self) -> None:
        fleet = Fleet(3, target=target(3))
        fleet.run([0], Numbers())
        fleet.desired = fleet.current = 1
        assert fleet.run(range(1, 5), Numbers()) == {}

    def test_no_policy_goes_beyond_the_bounds(self) -> None:
        fleet = Fleet(2, target=target(1, 5), policies={"track": tracking(50)})
        assert fleet.run(range(1, 5), Numbers(Use=[500])) == {3: 5}

        fleet = Fleet(3, target=target(2), policies={"track": tracking(50)})
        fleet.run(range(1, 30), Numbers(Use=[0]))
        assert (fleet.desired, fleet.reasons) == (2, ["AlreadyAtMinCapacity"])

        with pytest.raises(ScalingPropertyError, match="cannot be less than"):
            Fleet(target=target(5, 4))

    def test_at_the_maximum_the_reason_names_it_and_is_told_once(self) -> None:
        fleet = Fleet(5, target=target(1, 5), policies={"track": tracking(50)})
        fleet.run(range(1, 9), Numbers(Use=[500]))
        assert fleet.reasons == ["AlreadyAtMaxCapacity"]

        assert fleet.told[0]["NotScaledReasons"] == [
            {"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 5}
        ]

        fleet = Fleet(5, target=target(1, 5), policies={"track": tracking(50)})
        fleet.run([index / 6 for index in range(6, 49)], Numbers(Use=[500]))
        assert fleet.reasons == ["AlreadyAtMaxCapacity"]


class TestCooldowns:
    def test_a_scale_out_is_not_repeated_in_the_cooldown_after_it(self) -> None:
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

    def test_tracking_adds_more_in_its_cooldown_only_where_more_than_before_is_wanted(self) -> None:
        fleet = Fleet(2, target=target(), policies={"track": tracking(50, ScaleOutCooldown=600)})
        # 2 x 100 / 50 = 4 at 3; in the cooldown from the 2 of before: 100 wants 4, 120 wants 5.
        numbers = Numbers(Use=[100, 100, 100, 100, 100, 120])
        assert fleet.run(range(1, 9), numbers) == {3: 4, 6: 5}

    def test_a_scale_in_blocks_the_next_one_in_its_cooldown_but_no_scale_out(self) -> None:
        fleet = Fleet(9, target=target(), policies={"track": tracking(50, ScaleInCooldown=180)})
        assert fleet.run(range(1, 24), Numbers(Use=[10])) == {15: 8, 19: 7, 23: 6}

        fleet = Fleet(9, target=target(), policies={"track": tracking(50, ScaleInCooldown=900)})
        numbers = Numbers(Use=[*[10] * 15, 100])
        assert fleet.run(range(1, 20), numbers) == {15: 8, 18: 16, 19: 20}

        down = steps((None, 0, -1), name="down", Cooldown=3600)
        up = steps((0, None, 4), name="up")
        fleet = Fleet(
            5,
            target=target(),
            policies={"down": down, "up": up},
            alarms=[alarm("down", 20, above=False), alarm("up", 80)],
        )
        assert fleet.run(range(1, 5), Numbers(Use=[10, 90, 10, 10])) == {1: 4, 2: 8, 3: 7}

    def test_another_policy_and_a_schedule_do_not_wait_for_a_cooldown(self) -> None:
        fleet = Fleet(
            4,
            target=target(),
            policies={
                "step": steps((0, None, 2), Cooldown=600),
                "late": steps((0, None, 1), name="late", Cooldown=600),
            },
            alarms=[alarm("step"), alarm("late", minutes=2)],
        )
        assert fleet.run(range(1, 4), Numbers(Use=[60])) == {1: 6, 2: 7}

        action = {
            "ScheduledActionName": "morning",
            "Schedule": "at(2026-11-23T00:03:00)",
            "ScalableTargetAction": {"MinCapacity": 9},
        }
        fleet = Fleet(
            4,
            target=target(ScheduledActions=[action]),
            policies={"step": steps((0, None, 2), Cooldown=3600)},
            alarms=[alarm("step")],
        )
        assert fleet.run(range(1, 6), Numbers(Use=[60])) == {1: 6, 3: 9}


TWO = {"a": tracking(50, "A", name="a"), "b": tracking(50, "B", name="b")}


class TestSeveralPolicies:
    def test_it_scales_out_if_any_is_ready_to_the_largest_capacity(self) -> None:
        fleet = Fleet(2, target=target(), policies=TWO)
        assert fleet.run(range(1, 4), Numbers(A=[90], B=[10])) == {3: 4}
        fleet = Fleet(2, target=target(), policies=TWO)
        assert fleet.run(range(1, 4), Numbers(A=[90], B=[140])) == {3: 6}

    def test_it_scales_in_only_if_all_that_scale_in_are_ready(self) -> None:
        fleet = Fleet(5, target=target(), policies=TWO)
        assert fleet.run(range(1, 40), Numbers(A=[10], B=[48])) == {}
        fleet = Fleet(5, target=target(), policies=TWO)
        assert fleet.run(range(1, 16), Numbers(A=[10], B=[10])) == {15: 4}
        fleet = Fleet(5, target=target(), policies=TWO)
        assert fleet.run(range(1, 40), Numbers(A=[10], B=[None])) == {}

        policies = {**TWO, "b": tracking(50, "B", name="b", DisableScaleIn=True)}
        fleet = Fleet(5, target=target(), policies=policies)
        assert fleet.run(range(1, 16), Numbers(A=[10], B=[48])) == {15: 4}

    def test_a_steps_way_in_is_not_blocked_by_tracking(self) -> None:
        fleet = Fleet(
            5,
            target=target(),
            policies={"a": TWO["a"], "down": steps((None, 0, -1), name="down")},
            alarms=[alarm("down", 20, above=False, metric="B")],
        )
        assert fleet.run(range(1, 3), Numbers(A=[48], B=[10])) == {1: 4, 2: 3}


class TestSuspended:
    def _fleet(self, key: str, **more: Any) -> Fleet:
        return Fleet(
            5,
            target=target(SuspendedState={key: True}, **more),
            policies={"track": tracking(50)},
        )

    def test_scaling_out_or_in_is_left_while_the_other_goes_on(self) -> None:
        fleet = self._fleet("DynamicScalingOutSuspended")
        assert fleet.run(range(1, 9), Numbers(Use=[90])) == {}
        fleet = self._fleet("DynamicScalingOutSuspended")
        assert fleet.run(range(1, 16), Numbers(Use=[10])) == {15: 4}
        assert self._fleet("DynamicScalingInSuspended").run(range(1, 40), Numbers(Use=[10])) == {}

    def test_a_schedule_is_left_and_not_made_up(self) -> None:
        action = {
            "ScheduledActionName": "morning",
            "Schedule": "at(2026-11-23T00:03:00)",
            "ScalableTargetAction": {"MinCapacity": 9},
        }
        fleet = self._fleet("ScheduledScalingSuspended", ScheduledActions=[action])
        left = fleet.run(range(1, 5), Numbers())
        fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
        assert left | fleet.run(range(5, 9), Numbers()) == {}

    def test_on_resuming_an_alarm_in_breach_acts(self) -> None:
        fleet = self._fleet("DynamicScalingOutSuspended")
        fleet.run(range(1, 9), Numbers(Use=[90]))
        fleet.scaling.scalers[RESOURCE].register(None, None, SuspendedState())
        assert fleet.run([9], Numbers(Use=[90])) == {9: 9}


class TestUpdating:
    def test_nothing_scales_during_an_update_and_afterwards_it_is_tried(self) -> None:
        fleet = Fleet(2, target=target(), policies={"track": tracking(50)})
        fleet.updating = True
        assert fleet.run(range(1, 9), Numbers(Use=[90])) == {}

        fleet = Fleet(2, target=target(), policies={"track": tracking(50)})
        fleet.updating = True
        fleet.run(range(1, 9), Numbers(Use=[90]))
        assert fleet.reasons == ["TargetServicePutResourceAsUnscalable"]

        fleet.updating = False
        assert fleet.run([9], Numbers(Use=[90])) == {9: 4}

    def test_while_instances_start_nothing_else_scales(self) -> None:
        fleet = _stepped()
        fleet.start_minutes = 5
        assert fleet.run(range(1, 8), Numbers(Use=[60])) == {1: 6, 6: 8}

    def test_a_schedule_whose_time_falls_into_it_fails_and_leaves_the_bounds(self) -> None:
        assert self._scheduled_while_updating().told[0]["StatusCode"] == "Failed"
        fleet = self._scheduled_while_updating()
        assert fleet.scaling.scalers[RESOURCE].target.minimum == 1

    def _scheduled_while_updating(self) -> Fleet:
        action = {
            "ScheduledActionName": "morning",
            "Schedule": "at(2026-11-23T00:03:00)",
            "ScalableTargetAction": {"MinCapacity": 6},
        }
        fleet = Fleet(2, target=target(ScheduledActions=[action]))
        fleet.run([0], Numbers())
        fleet.updating = True
        fleet.run(range(1, 9), Numbers())
        return fleet


class TestActivities:
    def test_what_runs_is_told_in_awss_words(self) -> None:
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

    def test_it_succeeds_with_the_instances_or_fails_with_a_reason(self) -> None:
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

    def test_a_minimum_is_told_as_the_cause(self) -> None:
        fleet = Fleet(1, target=target(3))
        fleet.run([0], Numbers())
        assert fleet.told[0]["Cause"] == "minimum capacity was set to 3"

    def test_a_capacity_that_somebody_else_changes_overrides_it(self) -> None:
        fleet = _stepped()
        fleet.start_minutes = 9
        fleet.run([1], Numbers(Use=[60, 10]))
        fleet.desired = 3
        fleet.run([2], Numbers(Use=[60, 10]))
        assert fleet.told[0]["StatusCode"] == "Overridden"

    def test_a_step_of_nothing_is_told_as_the_capacity_that_is_there(self) -> None:
        policy = steps((0, None, 0), AdjustmentType="PercentChangeInCapacity")
        fleet = Fleet(4, target=target(), policies={"step": policy}, alarms=[alarm("step")])
        fleet.run([1], Numbers(Use=[60]))
        assert fleet.told[0]["NotScaledReasons"] == [
            {"Code": "AlreadyAtDesiredCapacity", "CurrentCapacity": 4}
        ]
