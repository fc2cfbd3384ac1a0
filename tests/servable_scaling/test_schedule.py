"""When scheduled actions run, and what they leave behind."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from servable_scaling.choices import ScalingChoices
from servable_scaling.schedule import ActionSchedule
from tests.servable_scaling.minutes import RESOURCE, Fleet, Numbers, at, target, tracking


def _runs(
    expression: str,
    first: datetime,
    minutes: int,
    choices: ScalingChoices | None = None,
    **more: Any,
) -> list[str]:
    """Each minute of so many from `first` in which it runs, as hh:mm, UTC."""
    schedule = ActionSchedule(
        expression, created=at(0), choices=choices or ScalingChoices(), **more
    )
    all_of_them = (first + timedelta(minutes=index) for index in range(minutes))
    return [f"{one:%H:%M}" for one in all_of_them if schedule.due(one)]


def _days(day_fields: str, month: int = 11) -> list[int]:
    schedule = ActionSchedule(f"cron(0 0 {day_fields})", created=at(0))
    return [day for day in range(1, 31) if schedule.due(datetime(2026, month, day))]


def _morning(**action: Any) -> dict[str, Any]:
    return {
        "ScheduledActionName": "morning",
        "Schedule": "at(2026-11-23T00:03:00)",
        "ScalableTargetAction": action,
    }


def test_at_runs_once_to_the_minute() -> None:
    assert _runs("at(2026-11-23T07:00:00)", at(0), 1440) == ["07:00"]


def test_at_is_in_its_time_zone() -> None:
    found = _runs("at(2026-11-23T07:00:00)", at(0), 1440, time_zone="America/New_York")
    assert found == ["12:00"]


def test_a_rate_runs_at_intervals_from_its_start_on() -> None:
    found = _runs("rate(20 minutes)", at(0), 60, start=at(5))
    assert found == ["00:05", "00:25", "00:45"]


def test_a_rate_without_a_start_counts_from_its_creation() -> None:
    assert _runs("rate(1 hour)", at(0), 200) == ["01:00", "02:00", "03:00"]


def test_it_counts_from_its_creation_where_it_is_so_chosen() -> None:
    choices = ScalingChoices(rate_from="creation")
    assert _runs("rate(20 minutes)", at(0), 60, choices, start=at(5)) == ["00:05", "00:20", "00:40"]


def test_cron_runs_at_its_start_time_too() -> None:
    assert _runs("cron(30 * * * ? *)", at(0), 120, start=at(40)) == ["00:40", "01:30"]


def test_after_its_end_time_it_runs_no_more() -> None:
    assert _runs("cron(30 * * * ? *)", at(0), 240, end=at(100)) == ["00:30", "01:30"]


def test_start_and_end_are_utc_whatever_the_time_zone_is() -> None:
    found = _runs(
        "cron(0 * * * ? *)", at(0), 240, start=at(60), end=at(180), time_zone="Asia/Kolkata"
    )
    assert found == ["01:00", "01:30", "02:30"]


def test_cron_follows_daylight_saving() -> None:
    summer, winter = datetime(2026, 7, 1), datetime(2026, 12, 1)
    nine = "cron(0 9 * * ? *)"
    found = [_runs(nine, day, 1440, time_zone="Europe/Berlin") for day in (summer, winter)]
    assert found == [["07:00"], ["08:00"]]


@pytest.mark.parametrize(("choice", "runs"), [("skipped", []), ("after", ["01:00"])])
def test_a_local_time_that_is_left_out_runs_as_chosen(choice: Any, runs: list[str]) -> None:
    # On 29 March 2026 Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
    choices = ScalingChoices(skipped_local_time=choice)
    day = datetime(2026, 3, 29)
    assert _runs("cron(30 2 * * ? *)", day, 1440, choices, time_zone="Europe/Berlin") == runs


@pytest.mark.parametrize(("choice", "runs"), [("once", ["00:30"]), ("twice", ["00:30", "01:30"])])
def test_a_local_time_that_comes_twice_runs_as_chosen(choice: Any, runs: list[str]) -> None:
    # On 25 October 2026 they go from 03:00 to 02:00, at 01:00 UTC.
    choices = ScalingChoices(repeated_local_time=choice)
    day = datetime(2026, 10, 25)
    assert _runs("cron(30 2 * * ? *)", day, 1440, choices, time_zone="Europe/Berlin") == runs


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ("L * ? *", [30]),
        ("L-3 * ? *", [27]),
        ("LW * ? *", [30]),
        ("1W * ? *", [2]),  # the 1st is a Sunday
        ("21W * ? *", [20]),  # a Saturday
        ("15W * ? *", [16]),  # a Sunday
        ("18W * ? *", [18]),
        ("? * 2#1 *", [2]),
        ("? * MON#5 *", [30]),
        ("? * FRIL *", [27]),
        ("? * L *", [7, 14, 21, 28]),
        ("? * FRI-MON *", [1, 2, 6, 7, 8, 9, 13, 14, 15, 16, 20, 21, 22, 23, 27, 28, 29, 30]),
        ("1,10-12 NOV ? 2026", [1, 10, 11, 12]),
        ("1/10 * ? *", [1, 11, 21]),
    ],
)
def test_days_are_those_of_november_2026(fields: str, days: list[int]) -> None:
    assert _days(fields) == days


def test_the_nearest_weekday_stays_in_its_month() -> None:
    # 1 August 2026 is a Saturday, 31 May a Sunday.
    assert (_days("1W * ? *", 8), _days("LW * ? *", 5)) == ([3], [29])


def test_below_the_new_minimum_it_scales_out_to_it() -> None:
    fleet = Fleet(2, target=target(ScheduledActions=[_morning(MinCapacity=6, MaxCapacity=9)]))
    assert fleet.run(range(0, 9), Numbers()) == {3: 6}


def test_above_the_new_maximum_it_scales_in_to_it() -> None:
    fleet = Fleet(8, target=target(ScheduledActions=[_morning(MaxCapacity=5)]))
    assert fleet.run(range(0, 9), Numbers()) == {3: 5}


def test_what_it_does_not_name_stays() -> None:
    fleet = Fleet(8, target=target(2, 20, ScheduledActions=[_morning(MaxCapacity=5)]))
    fleet.run(range(0, 9), Numbers())
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 2


def test_it_tells_the_bounds_and_then_the_capacity() -> None:
    fleet = Fleet(2, target=target(ScheduledActions=[_morning(MinCapacity=6, MaxCapacity=9)]))
    fleet.run(range(0, 9), Numbers())
    assert [(one["Description"], one["Cause"]) for one in fleet.told] == [
        (
            "Setting min capacity to 6 and max capacity to 9",
            "scheduled action name morning was triggered",
        ),
        ("Setting desired instance count to 6.", "minimum capacity was set to 6"),
    ]


def test_afterwards_policies_go_on_inside_the_new_bounds() -> None:
    fleet = Fleet(
        2,
        target=target(ScheduledActions=[_morning(MinCapacity=6, MaxCapacity=9)]),
        policies={"track": tracking(50)},
    )
    assert fleet.run(range(0, 9), Numbers(Use=[40, 40, 40, 90])) == {3: 6, 6: 9}


def test_after_its_end_nothing_is_put_back() -> None:
    action = _morning(MinCapacity=6) | {
        "Schedule": "cron(* * * * ? *)",
        "EndTime": "2026-11-23T00:02:00Z",
    }
    fleet = Fleet(2, target=target(ScheduledActions=[action]))
    fleet.run(range(0, 9), Numbers())
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 6


def test_two_actions_of_one_minute_run_in_order() -> None:
    late = _morning(MinCapacity=4) | {"ScheduledActionName": "late"}
    fleet = Fleet(2, target=target(ScheduledActions=[_morning(MinCapacity=6), late]))
    fleet.run(range(0, 9), Numbers())
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 4


def test_bounds_that_would_cross_fail_the_action() -> None:
    fleet = Fleet(2, target=target(1, 5, ScheduledActions=[_morning(MinCapacity=6)]))
    fleet.run(range(0, 9), Numbers())
    assert (fleet.told[0]["StatusCode"], fleet.desired) == ("Failed", 2)
