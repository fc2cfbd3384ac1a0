"""The local AWS, on a clock that stands still, does what a rehearsal computes, for 90 minutes."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servable.rehearse.command import read_invocations
from servable_local.aws.clock import round_down
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel, Service
from servable_scaling.rehearsal.scenario import Scenario
from tests.servable_local.aws.test_scaling_acts import KEY, MANY, TRACKING, Scaled, stepping
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long

MINUTES, START_MINUTES = 90, 4
# Requests of each minute: few, then twice what two instances carry, then none, and again many.
REQUESTS = [4] * 10 + [12] * 20 + [0] * 30 + [16] * 12 + [2] * 18
ONE_MORE = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}
STEP = stepping("ChangeInCapacity", ONE_MORE, Cooldown=60)
BOUNDS = {"MinCapacity": 1, "MaxCapacity": 3}
Seen = list[tuple[int, str]]
"""(minute, what)"""


class Window:
    """Ninety minutes of one endpoint between 1 and 3 instances, in the local AWS and rehearsed."""

    def __init__(self, watched: Watched, archive: bytes = b"") -> None:
        self.scaled = Scaled(watched, archive=archive)
        self.scaled.fault(start_seconds=60 * START_MINUTES)
        self.watched = watched
        self.begins = round_down(watched.clock.now(), 60)
        self.policies: dict[str, Any] = {}
        self.alarms: list[dict[str, Any]] = []
        self.actions: list[dict[str, Any]] = []
        self.scaled.client.register_scalable_target(**KEY, **BOUNDS)

    def policy(self, properties: dict[str, Any], *alarms: dict[str, Any]) -> None:
        kept = {name: one for name, one in properties.items() if name != "ScalingTargetId"}
        arn = self.scaled.client.put_scaling_policy(**KEY, **kept)["PolicyARN"]
        self.policies[arn] = {**properties, "ScalingTargetId": "target"}
        for alarm in alarms:
            self.alarms.append({**alarm, "AlarmActions": [arn]})
            self.scaled.account.client("cloudwatch").put_metric_alarm(**self.alarms[-1])

    def schedule(self, name: str, minute: int, **bounds: int) -> None:
        at = f"at({self.begins + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%S})"
        action = {"ScheduledActionName": name, "Schedule": at, "ScalableTargetAction": bounds}
        self.scaled.client.put_scheduled_action(**KEY, **action)
        self.actions.append(action)

    def ran(self) -> tuple[Seen, Seen]:
        """What the local AWS did: (capacities that were set, alarms that changed)."""
        before: dict[str, str] = {}
        changed: Seen = []
        cloudwatch = self.scaled.account.client("cloudwatch")
        for requests in REQUESTS:
            self.watched.minutes(1, requests=requests)
            for one in cloudwatch.describe_alarms()["MetricAlarms"]:
                name, state = _short(one["AlarmName"]), one["StateValue"]
                if before.get(name, "INSUFFICIENT_DATA") != state:
                    changed.append((self._minute(one["StateUpdatedTimestamp"]), f"{name} {state}"))
                before[name] = state
        return self._activities(reversed(self.scaled.activities())), changed

    def rehearsed(self) -> tuple[Seen, Seen]:
        scenario = Scenario(
            requests=[*map(float, REQUESTS), 0.0],
            model=InstanceModel(100, Service(0.01, 0.02), 1000),
            routing="least_outstanding_requests",
            resource=KEY["ResourceId"],
            instances=2,
            start_minutes=START_MINUTES,
            targets={"target": {**KEY, **BOUNDS, "ScheduledActions": self.actions}},
            policies=self.policies,
            alarms=self.alarms,
            begins=self.begins,
        )
        day = rehearse(scenario)
        states = [(self._minute(one.at), f"{_short(one.alarm)} {one.state}") for one in day.alarms]
        return self._activities(one.describe("") for one in day.activities), states

    def _activities(self, shown: Iterable[Mapping[str, Any]]) -> Seen:
        scaled = [one for one in shown if "NotScaledReasons" not in one]
        return [(self._minute(one["StartTime"]), one["Description"]) for one in scaled]

    def _minute(self, at: datetime) -> int:
        naive = at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
        return round((naive - self.begins) / timedelta(minutes=1))


def _short(alarm: str) -> str:
    return next((side for side in ("AlarmHigh", "AlarmLow") if side in alarm), alarm)


def assert_alike(window: Window) -> None:
    for rehearsed, ran in zip(window.rehearsed(), window.ran(), strict=True):
        assert [what for _, what in rehearsed] == [what for _, what in ran], (rehearsed, ran)
        assert rehearsed
        apart = [abs(one[0] - other[0]) for one, other in zip(rehearsed, ran, strict=True)]
        assert max(apart) <= 1, (rehearsed, ran)


def test_steps_scale_in_the_minutes_of_the_rehearsal(watched: Watched) -> None:
    window = Window(watched)
    window.policy(STEP, MANY)
    assert_alike(window)


def test_schedules_and_tracking_scale_in_their_minutes(watched: Watched) -> None:
    window = Window(watched)
    window.policy(TRACKING["Properties"])
    window.schedule("morning", 20, MinCapacity=3)
    window.schedule("evening", 50, MinCapacity=1)
    assert_alike(window)


def test_cloudwatch_counts_the_requests(watched: Watched) -> None:
    scaled = Scaled(watched)
    if watched.clock.now().hour == 23:
        watched.clock.advance(minutes=60)  # one day
    begins = watched.clock.now()
    for requests in (3, 0, 5):
        watched.minutes(1, requests=requests)
    client, now = scaled.account.client("cloudwatch"), begins.astimezone()
    found = read_invocations(client, endpoint="ranker", variants=["primary"], day=begins, now=now)
    first = begins.hour * 60 + begins.minute
    assert found[first : first + 3] == [3, 0, 5]
