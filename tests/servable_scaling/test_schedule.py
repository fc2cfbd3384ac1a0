"""When scheduled actions run, and what they leave behind."""

import itertools
import time
from calendar import monthrange
from datetime import datetime, timedelta
from typing import Any

import pytest

from servable_scaling.schedule import (
    ActionSchedule,
    ScheduleError,
    compute_last_run,
    has_common_minute,
)
from tests.servable_scaling.minutes import RESOURCE, Fleet, Numbers, at, morning, target, tracking


def _runs(expression: str, first: datetime, minutes: int, **more: Any) -> list[str]:
    """Each minute of so many from `first` in which it runs, as hh:mm, UTC."""
    schedule = ActionSchedule(expression, created=at(0), **more)
    all_of_them = (first + timedelta(minutes=index) for index in range(minutes))
    return [f"{one:%H:%M}" for one in all_of_them if schedule.is_due(one)]


def _days(day_fields: str, month: int = 11) -> list[int]:
    schedule = ActionSchedule(f"cron(0 0 {day_fields})", created=at(0))
    days = range(1, monthrange(2026, month)[1] + 1)
    return [day for day in days if schedule.is_due(datetime(2026, month, day))]


def test_without_a_time_zone_it_is_utc_and_in_its_own_it_follows_daylight_saving() -> None:
    assert _runs("at(2026-11-23T07:00:00)", at(0), 1440) == ["07:00"]
    assert _runs("at(2026-11-23T07:00:00)", at(0), 1440, time_zone="America/New_York") == ["12:00"]
    for zone in ["UTC", "Etc/UTC", None]:
        assert _runs("cron(0 7 * * ? *)", at(0), 1440, time_zone=zone) == ["07:00"]

    summer, winter = datetime(2026, 7, 1), datetime(2026, 12, 1)
    nine = "cron(0 9 * * ? *)"
    found = [_runs(nine, day, 1440, time_zone="Europe/Berlin") for day in (summer, winter)]
    assert found == [["07:00"], ["08:00"]]

    # On 29 March 2026 Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
    day = datetime(2026, 3, 29)
    assert _runs("cron(30 2 * * ? *)", day, 1440, time_zone="Europe/Berlin") == []
    # On 25 October 2026 they go from 03:00 to 02:00, at 01:00 UTC.
    day = datetime(2026, 10, 25)
    assert _runs("cron(30 2 * * ? *)", day, 1440, time_zone="Europe/Berlin") == ["00:30"]


def test_without_a_time_zone_it_is_utc_on_any_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST+5")
    time.tzset()
    try:
        assert _runs("cron(0 7 * * ? *)", at(0), 1440) == ["07:00"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_rate_runs_at_intervals_and_cron_from_its_start_to_its_end_which_are_utc() -> None:
    assert _runs("rate(20 minutes)", at(0), 60, start=at(5)) == ["00:05", "00:25", "00:45"]
    start = at(5) + timedelta(seconds=42)
    assert _runs("rate(20 minutes)", at(0), 60, start=start) == ["00:05", "00:25", "00:45"]
    assert _runs("rate(1 hour)", at(0), 200) == ["01:00", "02:00", "03:00"]
    found = _runs("rate(12 hours)", at(0), 1441, start=at(0), time_zone="Asia/Kolkata")
    assert found == ["00:00", "12:00", "00:00"]

    assert _runs("cron(30 * * * ? *)", at(0), 120, start=at(40)) == ["00:40", "01:30"]
    assert _runs("cron(* * * * ? *)", at(0), 7, start=at(5)) == ["00:05", "00:06"]
    assert _runs("cron(30 * * * ? *)", at(0), 240, end=at(100)) == ["00:30", "01:30"]
    assert _runs("cron(* * * * ? *)", at(0), 9, end=at(1)) == ["00:00", "00:01"]
    between = {"start": at(60), "end": at(180), "time_zone": "Asia/Kolkata"}
    assert _runs("cron(0 * * * ? *)", at(0), 240, **between) == ["01:00", "01:30", "02:30"]


def test_days_are_those_of_november_2026() -> None:
    for fields, days in [
        ("L * ? *", [30]),
        ("L-3 * ? *", [27]),
        ("LW * ? *", [30]),
        ("1W * ? *", [2]),  # the 1st is a Sunday
        ("21W * ? *", [20]),  # a Saturday
        ("15W * ? *", [16]),  # a Sunday
        ("? * 2#1 *", [2]),
        ("? * MON#5 *", [30]),
        ("? * FRIL *", [27]),
        ("? * L *", [7, 14, 21, 28]),
        ("? * FRI-MON *", [1, 2, 6, 7, 8, 9, 13, 14, 15, 16, 20, 21, 22, 23, 27, 28, 29, 30]),
        ("1,10-12 NOV ? 2026", [1, 10, 11, 12]),
        ("1/10 * ? *", [1, 11, 21]),
    ]:
        assert _days(fields) == days
    # 1 August 2026 is a Saturday, 31 May a Sunday.
    assert (_days("1W * ? *", 8), _days("LW * ? *", 5)) == ([3], [29])
    for fields, month, days in [
        ("31W * ? *", 11, [30]),  # November has 30 days: the last one, a Monday
        ("L-29 * ? *", 11, [1]),
        ("? * 1L *", 11, [29]),
        ("? * SUN#1 *", 11, [1]),
        ("? * 2#5 *", 10, []),  # October 2026 has four Mondays
        ("? * SAT,SUN *", 8, [1, 2, 8, 9, 15, 16, 22, 23, 29, 30]),
        ("? 10 MON *", 11, []),
        ("1 * ? 2025", 11, []),
        ("31W * ? *", 10, [30]),  # a Saturday
        ("31W * ? *", 5, [29]),  # a Sunday
        ("30W * ? *", 8, [31]),
        ("1W 2 ? *", 2, [2]),
        ("L 2 ? *", 2, [28]),
        ("? 2 3L *", 2, [24]),
    ]:
        assert _days(fields, month) == days


def test_new_bounds_scale_the_capacity_and_policies_go_on_inside_them() -> None:
    fleet = Fleet(2, bounds=target(ScheduledActions=[morning(MinCapacity=6, MaxCapacity=9)]))
    assert fleet.run(range(0, 9), Numbers()) == {3: 6}
    assert [(one["Description"], one["Cause"]) for one in fleet.told] == [
        ("Setting min capacity to 6 and max capacity to 9",
         "scheduled action name morning was triggered"),
        ("Setting desired instance count to 6.", "minimum capacity was set to 6"),
    ]  # fmt: skip
    fleet = Fleet(8, bounds=target(2, 20, ScheduledActions=[morning(MaxCapacity=5)]))
    assert fleet.run(range(0, 9), Numbers()) == {3: 5}
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 2
    bounds = target(ScheduledActions=[morning(MinCapacity=6, MaxCapacity=9)])
    fleet = Fleet(2, tracking(), bounds=bounds)
    assert fleet.run(range(0, 9), Numbers(Use=[40, 40, 40, 90])) == {3: 6, 6: 9}

    fleet = Fleet(2, bounds=target(1, 5, ScheduledActions=[morning(MinCapacity=6)]))
    fleet.run(range(0, 9), Numbers())
    assert (fleet.told[0]["StatusCode"], fleet.desired) == ("Failed", 2)


def test_after_its_end_nothing_is_put_back_and_two_actions_of_a_minute_run_in_order() -> None:
    times = {"Schedule": "cron(* * * * ? *)", "EndTime": "2026-11-23T00:02:00Z"}
    fleet = Fleet(2, bounds=target(ScheduledActions=[morning(MinCapacity=6) | times]))
    fleet.run(range(0, 9), Numbers())
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 6
    late = morning(MinCapacity=4) | {"ScheduledActionName": "late"}
    fleet = Fleet(2, bounds=target(ScheduledActions=[morning(MinCapacity=6), late]))
    fleet.run(range(0, 9), Numbers())
    assert fleet.scaling.scalers[RESOURCE].target.minimum == 4


@pytest.mark.parametrize(("expression", "problem", "allowed"), [
    ("rate(0 minutes)", "'0 minutes' isn't a valid interval", "rate(N UNIT): a whole number"),
    ("rate(1 week)", "'1 week' isn't a valid interval", "minutes, hours or days"),
    ("at(2026-02-30T00:00:00)", "isn't a valid time", "at(yyyy-mm-ddThh:mm:ss)"),
    ("at(2026-12-24)", "'2026-12-24' isn't a valid time", "at(2026-12-24T18:00:00)"),
    ("cron(0 7 * * ?)", "cron has six fields, but '0 7 * * ?' has 5", "day of week, year"),
    ("cron(0 7 * * ? * *)", "cron has six fields, but '0 7 * * ? * *' has 7", "cron(0 7 ?"),
    ("cron(0 7 * * * *)", "day of the month is * and day of the week *", "? in one of them"),
    ("cron(0 7 ? * ? *)", "day of the month is ? and day of the week ?", "? in one of them"),
    ("cron(0 7 31 FEB ? *)", "month FEB has no day 31", "1 to 29"),
    ("cron(0 7 31 4,6,9,11 ? *)", "month 4,6,9,11 has no day 31", "1 to 30"),
    ("cron(60 7 * * ? *)", "minute 60 is out of range", "0 to 59"),
    ("cron(0 24 * * ? *)", "hour 24 is out of range", "0 to 23"),
    ("cron(0 7 0 * ? *)", "day of the month 0 is out of range", "1 to 31"),
    ("cron(0 7 32 * ? *)", "day of the month 32 is out of range", "1 to 31"),
    ("cron(0 7 * 0 ? *)", "month 0 is out of range", "1 to 12 or JAN to DEC"),
    ("cron(0 7 * 13 ? *)", "month 13 is out of range", "1 to 12 or JAN to DEC"),
    ("cron(0 7 ? * 0 *)", "day of the week 0 is out of range", "1 to 7 or SUN to SAT"),
    ("cron(0 7 ? * 8 *)", "day of the week 8 is out of range", "1 to 7 or SUN to SAT"),
    ("cron(0 7 ? * MON-FRIDAY *)", "day of the week MON-FRIDAY is out of range", "SUN to SAT"),
    ("cron(0 7 * * ? 1969)", "year 1969 is out of range", "1970 to 2199"),
    ("cron(0 7 * * ? 2200)", "year 2200 is out of range", "1970 to 2199"),
    ("cron(*/0 7 * * ? *)", "'*/0' isn't a valid minute", "0 to 59, with , - * /"),
    ("cron(1+2 7 * * ? *)", "'1+2' isn't a valid minute", "0 to 59, with , - * /"),
    ("cron(0 7 L-100 * ? *)", "day of the month L-100 is out of range", "1 to 31"),
    ("cron(0 7 32W * ? *)", "day of the month 32W is out of range", "1 to 31"),
    ("cron(0 7 ? * 2#6 *)", "'2#6' isn't a valid day of the week", "1 to 7"),
    ("cron(L 7 * * ? *)", "minute L is out of range", "0 to 59"),
    ("rate(1 hours)", "singular after 1", ""),
    ("rate(5 minute)", "singular after 1", ""),
    ("rate(01 days)", "singular after 1", ""),
])  # fmt: skip
def test_an_expression_that_aws_refuses_says_what_is_allowed(
    expression: str, problem: str, allowed: str
) -> None:
    for read in (compute_last_run, lambda text: ActionSchedule(text, created=at(0))):
        with pytest.raises(ScheduleError) as raised:
            read(expression)
        assert problem in str(raised.value)
        assert allowed in raised.value.allowed


def test_minutes_are_lists_ranges_and_steps_and_a_schedule_has_its_last_time() -> None:
    for expression, last in [
        ("at(2026-11-23T07:00:00)", datetime(2026, 11, 23, 7)),
        ("cron(0 7 * * ? *)", None),
        ("cron(0 7 * * ? 2026-2028)", datetime(2028, 12, 31, 23, 59, 59)),
        ("rate(5 minutes)", None),
    ]:
        assert compute_last_run(expression) == last
    for expression in ["cron(0 0 29 2 ? *)", "cron(0 0 31 2,3 ? *)"]:
        assert compute_last_run(expression) is None
    for minutes, runs in [
        ("0/20", [0, 20, 40]),
        ("50-5/5", [50, 55, 0, 5]),
        ("5/25", [5, 30, 55]),
        ("*/30", [0, 30]),
        ("1,3-5", [1, 3, 4, 5]),
        ("59", [59]),
        ("10-20/5", [10, 15, 20]),
        ("58-1", [58, 59, 0, 1]),
    ]:
        found = _runs(f"cron({minutes} 6 * * ? *)", at(0), 1440)
        assert found == sorted(f"06:{minute:02}" for minute in runs)
    for rate, minutes in [("1 minute", 1), ("7 minutes", 7), ("2 hours", 120), ("1 day", 1440)]:
        schedule = ActionSchedule(f"rate({rate})", created=at(0))
        due = [minute for minute in range(2900) if schedule.is_due(at(minute))]
        assert due[:2] == [minutes, 2 * minutes]


CRONS = (
    "cron(0 7 * * ? *)", "cron(30 7 ? * MON *)", "cron(0 6,7 ? * MON-FRI *)",
    "cron(0/30 7 1 * ? *)", "cron(0 7 ? * SAT,SUN *)", "cron(0 7 L 2 ? *)", "cron(0 6 29 2 ? *)",
)  # fmt: skip


def test_expressions_share_a_minute_if_both_are_due_in_one_and_rates_none() -> None:
    for first, second in list(itertools.combinations(CRONS, 2)):
        created = datetime(2000, 1, 1)
        schedules = [ActionSchedule(each, created=created) for each in (first, second)]
        moments = itertools.product(range(366), (6, 7), (0, 30))
        minutes = (created + timedelta(d, hours=h, minutes=m) for d, h, m in moments)
        both = any(all(schedule.is_due(minute) for schedule in schedules) for minute in minutes)
        assert has_common_minute(first, second) is both
    for first, second, same in [
        ("at(2026-12-24T07:00:00)", "at(2026-12-24T07:00:30)", True),
        ("at(2026-12-24T07:00:00)", "at(2026-12-24T07:01:00)", False),
        ("at(2026-12-24T07:00:00)", "cron(0 7 ? * THU *)", True),
        ("cron(0 7 ? * FRI *)", "at(2026-12-24T07:00:00)", False),
        ("rate(1 minute)", "cron(0 7 * * ? *)", False),
        ("cron(0 7 * * ? 2027)", "cron(0 7 * * ? 2028)", False),
    ]:
        assert has_common_minute(first, second) is same
