"""Alarms that are looked at minute by minute: the same decisions as the local AWS's, and when they act."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from servable_scaling.alarms.alarm_state import MetricAlarmRule
from servable_scaling.alarms.query import MetricQuery
from servable_scaling.autoscaling import Autoscaling, WatchedAlarm, is_acting
from servable_scaling.scalable_target import ScalingPropertyError
from servable_scaling.target_scaler import ScaledResource
from tests.servable_scaling.minutes import (
    RESOURCE,
    START,
    Fleet,
    Numbers,
    alarm,
    at,
    steps,
    target,
    tracking,
)


def test_a_watched_alarm_decides_as_one_that_asks_for_everything_anew_but_once() -> None:
    for period in [60, 120, 300]:
        random = Random(period)
        numbers = Numbers(Use=[random.choice([None, 40.0, 60.0, 70.0]) for _ in range(200)])
        request = alarm("step", minutes=3) | {"Period": period, "DatapointsToAlarm": 2}
        watched, rule = WatchedAlarm(request), MetricAlarmRule(request)
        state = watched.state
        for minute in range(1, 200):
            found = rule.evaluate(numbers, at(minute), state)
            assert found is not None
            state = found.state
            assert watched.update_state(numbers, at(minute))[1] == state

    numbers, watched = Counting(), WatchedAlarm(alarm("s", minutes=3))
    for minute in range(1, 20):
        watched.update_state(numbers, at(minute))
    assert len(numbers.minutes) == len(set(numbers.minutes))

    numbers, watched = Counting(), WatchedAlarm(alarm("s", minutes=3))
    watched.update_state(numbers, at(3))
    watched.update_state(numbers, at(7))  # five minutes, from the last one that is there on
    assert len(numbers.minutes) == len(set(numbers.minutes))

    numbers, watched = Counting(), WatchedAlarm(alarm("s", minutes=3))
    watched.update_state(numbers, at(10))
    numbers.minutes.clear()
    watched.update_state(numbers, at(60))
    assert numbers.minutes == [at(minute) for minute in range(55, 60)]


def test_an_alarm_acts_as_it_goes_off_and_then_once_a_minute_unless_its_actions_are_off() -> None:
    for before, state, second, does in [
        ("OK", "ALARM", 0, True),
        ("OK", "ALARM", 10, True),
        ("ALARM", "ALARM", 0, True),
        ("ALARM", "ALARM", 10, False),
        ("ALARM", "OK", 0, False),
        ("OK", "INSUFFICIENT_DATA", 0, False),
    ]:
        assert is_acting(before, state, START + timedelta(seconds=second)) is does  # type: ignore[arg-type]
    fleet = Fleet(4, steps((0, None, 2)), alarms=[alarm("step", ActionsEnabled=False)])
    assert fleet.run(range(1, 5), Numbers(Use=[60])) == {}


def test_changes_and_data_that_end_are_told_with_their_actions() -> None:

    fleet = Fleet(alarms=[alarm("step", InsufficientDataActions=["dark"])])
    numbers = Numbers(Use=[60, None, None, None, None, None])
    changes = [one for minute in range(1, 7) for one in fleet.advance(minute, numbers).changed]
    shown = [(one.state, one.actions) for one in changes]
    assert shown == [("ALARM", ("step",)), ("INSUFFICIENT_DATA", ("dark",))]
    told = (changes[0].at, changes[0].alarm, changes[0].before)
    assert told == (at(1), "step-high", "INSUFFICIENT_DATA")
    cases: list[tuple[dict[str, Any], list[float | None], tuple[str, ...]]] = [
        ({"OKActions": ["fine"]}, [40], ("fine",)),
        ({"InsufficientDataActions": ["dark"], "AlarmActions": ["red"]}, [60], ("red",)),
        ({"ActionsEnabled": False, "OKActions": ["fine"]}, [40], ()),
        ({"AlarmActions": []}, [60], ()),
    ]
    for more, used, actions in cases:
        (change,) = Fleet(alarms=[alarm("step", **more)]).advance(1, Numbers(Use=used)).changed
        assert change.actions == actions


def test_policies_name_their_target_and_two_targets_scale_on_their_own() -> None:
    policy = tracking() | {"ScalingTargetId": "t"}
    del policy["ResourceId"]
    assert Fleet(2, policy).run(range(1, 4), Numbers(Use=[90])) == {3: 4}

    with pytest.raises(ScalingPropertyError, match="Policy track names no target"):
        Fleet(1, tracking() | {"ResourceId": "endpoint/x/variant/y"})

    other = "endpoint/ranker/variant/b"
    scaling = Autoscaling(
        targets={"a": target(), "b": target() | {"ResourceId": other}},
        policies={"pa": tracking(50, "A"), "pb": tracking(50, "B") | {"ResourceId": other}},
        created=START,
    )
    two = {RESOURCE: ScaledResource(2, 2), other: ScaledResource(2, 2)}
    numbers = Numbers(A=[90], B=[140])
    wanted = [scaling.advance(at(minute), numbers, two).desired for minute in (1, 2, 3)]
    assert wanted == [{}, {}, {RESOURCE: 4, other: 6}]


class Offset(Numbers):
    """60 in periods that begin within a minute, 40 in whole minutes."""

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        return 60.0 if start.second else 40.0


def test_an_alarm_on_minutes_is_looked_at_once_a_minute_where_it_is_complete() -> None:
    fleet = Fleet(4, steps((0, None, 1)))
    looks = [fleet.advance(minute, Offset()).changed for minute in (1, 1.5, 2)]
    assert [[one.state for one in changes] for changes in looks] == [["OK"], [], []]

    few = alarm("s", ExtendedStatistic="p99", EvaluateLowSampleCountPercentile="ignore")
    del few["Statistic"]
    watched = WatchedAlarm(few)
    given = watched.update_state(Numbers(Use=[60]), at(3))
    assert given == ("INSUFFICIENT_DATA", "INSUFFICIENT_DATA")
    assert watched.evaluation is None

    watched = WatchedAlarm(alarm("s"), delay_seconds=120)
    numbers = Numbers(Use=[40, 40, 60])
    states = [watched.update_state(numbers, at(minute))[1] for minute in (3, 4, 5)]
    assert states == ["OK", "OK", "ALARM"]


class Counting(Numbers):
    """Numbers that count how often each minute is asked for."""

    def __init__(self) -> None:
        super().__init__(Use=[60])
        self.minutes: list[datetime] = []

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        self.minutes.append(start)
        return super().compute_value(query, start, end)
