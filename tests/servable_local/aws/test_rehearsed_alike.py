"""The local AWS, on a clock that stands still, does what a rehearsal computes, for 90 minutes."""

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from servable.rehearse.command import read_invocations
from servable_local.aws.clock import ScaledClock, round_down
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from servable_scaling.rehearsal.day import rehearse
from servable_scaling.rehearsal.fleet import InstanceModel, Service
from servable_scaling.rehearsal.scenario import Scenario
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_scaling_acts import KEY, MANY, TRACKING, Scaled, stepping
from tests.servable_local.aws.watched_endpoint import Watched, forget_everything

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


def assert_alike(window: Window, case: str) -> None:
    if case == "steps":
        window.policy(STEP, MANY)
    else:
        window.policy(TRACKING["Properties"])
    if case == "schedules":
        window.schedule("morning", 20, MinCapacity=3)
        window.schedule("evening", 50, MinCapacity=1)
    for rehearsed, ran in zip(window.rehearsed(), window.ran(), strict=True):
        assert [what for _, what in rehearsed] == [what for _, what in ran], (rehearsed, ran)
        assert rehearsed
        apart = [abs(one[0] - other[0]) for one, other in zip(rehearsed, ran, strict=True)]
        assert max(apart) <= 1, (rehearsed, ran)


@pytest.mark.parametrize("case", ["steps", "schedules"])
def test_policies_scale_in_the_minutes_of_the_rehearsal(watched: Watched, case: str) -> None:
    assert_alike(Window(watched), case)


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


SECONDS_PER_MINUTE = 2.0


class WaitedClock(ScaledClock):
    """Goes on by itself: `advance` waits."""

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> None:
        """To the end of whole minutes, so that what a minute took does not add up."""
        left = 60 * minutes + seconds - (self.now().second if minutes else 0)
        time.sleep(max(0.0, left) * self.seconds_per_minute / 60)


def main(cases: list[str]) -> None:
    """The same with containers that run and a minute of 2 s: three times 90 of them.

    Run by hand on a quiet computer: `python -m tests.servable_local.aws.test_rehearsed_alike`. It takes 10
    minutes, and ends with an AssertionError where an activity or an alarm comes more than a minute apart.
    """
    from benchmarks import endpoints

    with tempfile.TemporaryDirectory(prefix="servable-alike-") as temporary:
        folder, clock = Path(temporary), WaitedClock(SECONDS_PER_MINUTE)
        models = {"small": endpoints.export_model(folder / "model")}
        archive = endpoints.pack(folder / "model.tar.gz", models).read_bytes()
        (folder / "aws").mkdir()
        server = Server(folder=folder / "aws", clock=clock)
        server.start()
        try:
            aws = LocalAws(server.url, os.getpid(), "now", folder, server.access.secret_access_key)
            for case in cases or ["tracking", "steps", "schedules"]:
                account = Account(aws, None)  # type: ignore[arg-type]
                account.settled_within_seconds = 180.0  # its containers run
                assert_alike(Window(Watched(account, clock), archive), case)  # type: ignore[arg-type]
                print(f"{case}: alike", flush=True)
                forget_everything(server)
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
