"""The local AWS, on a clock that stands still, does what a rehearsal computes, for 90 minutes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servable.rehearse.command import read_invocations
from servable_local.aws.clock import round_down
from servable_local.aws.server import Server
from servable_scaling.rehearsal.day import RehearsedDay, rehearse
from servable_scaling.rehearsal.fleet import InstanceModel, Service
from servable_scaling.rehearsal.scenario import Scenario
from tests.servable_local.aws.deployed_templates import TARGET
from tests.servable_local.aws.test_scaling_acts import KEY, TRACKING, Scaled
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long

MINUTES, START_MINUTES = 90, 4
# Requests of each minute: few, then twice what two instances carry, then none, and again many.
REQUESTS = [4] * 10 + [12] * 20 + [0] * 30 + [16] * 12 + [2] * 18
STEPS = {
    "AdjustmentType": "ChangeInCapacity",
    "Cooldown": 60,
    "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
}
MANY: dict[str, Any] = {
    "AlarmName": "many",
    "Namespace": "AWS/SageMaker",
    "MetricName": "InvocationsPerInstance",
    "Dimensions": [
        {"Name": "EndpointName", "Value": "ranker"},
        {"Name": "VariantName", "Value": "primary"},
    ],
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 2,
    "Threshold": 5,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "TreatMissingData": "notBreaching",
}
Seen = list[tuple[int, str]]
"""(minute, what)"""


class Window:
    """Ninety minutes of one endpoint between 1 and 3 instances, in the local AWS and rehearsed."""

    def __init__(self, watched: Watched, server: Server, archive: bytes = b"") -> None:
        self.scaled = Scaled(watched, server, archive=archive)
        self.scaled.fault(start_seconds=60 * START_MINUTES)
        self.watched = watched
        self.begins = round_down(watched.clock.now(), 60)
        self.policies: dict[str, Any] = {}
        self.alarms: list[dict[str, Any]] = []
        self.actions: list[dict[str, Any]] = []
        self.scaled.client.register_scalable_target(**KEY, MinCapacity=1, MaxCapacity=3)

    def policy(self, properties: dict[str, Any], *alarms: dict[str, Any]) -> None:
        kept = {name: one for name, one in properties.items() if name != "ScalingTargetId"}
        arn = self.scaled.client.put_scaling_policy(**KEY, **kept)["PolicyARN"]
        self.policies[arn] = {**properties, "ScalingTargetId": "target"}
        for alarm in alarms:
            self.alarms.append({**alarm, "AlarmActions": [arn]})
            self.scaled.account.client("cloudwatch").put_metric_alarm(**self.alarms[-1])

    def schedule(self, name: str, minute: int, **bounds: int) -> None:
        at = self.begins + timedelta(minutes=minute)
        action = {
            "ScheduledActionName": name,
            "Schedule": f"at({at:%Y-%m-%dT%H:%M:%S})",
            "ScalableTargetAction": bounds,
        }
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
        activities = [
            (self._minute(one["StartTime"]), one["Description"])
            for one in reversed(self.scaled.activities())
        ]
        return activities, changed

    def rehearsed(self) -> tuple[Seen, Seen]:
        day = rehearse(
            Scenario(
                requests=[*map(float, REQUESTS), 0.0],
                model=InstanceModel(100, Service(0.01, 0.02), 1000),
                routing="least_outstanding_requests",
                resource=TARGET,
                instances=2,
                start_minutes=START_MINUTES,
                targets={
                    "target": {
                        **KEY,
                        "MinCapacity": 1,
                        "MaxCapacity": 3,
                        "ScheduledActions": self.actions,
                    }
                },
                policies=self.policies,
                alarms=self.alarms,
                begins=self.begins,
            )
        )
        return self._activities(day), [
            (self._minute(one.at), f"{_short(one.alarm)} {one.state}") for one in day.alarms
        ]

    def _activities(self, day: RehearsedDay) -> Seen:
        shown = (one.describe("") for one in day.activities)
        return [
            (self._minute(one["StartTime"]), one["Description"])
            for one in shown
            if "NotScaledReasons" not in one
        ]

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


def test_steps_scale_in_the_minutes_of_the_rehearsal(watched: Watched, server: Server) -> None:
    window = Window(watched, server)
    steps = {"PolicyName": "step", "PolicyType": "StepScaling"}
    window.policy({**steps, "StepScalingPolicyConfiguration": STEPS}, MANY)
    assert_alike(window)


def test_schedules_and_tracking_scale_in_their_minutes(watched: Watched, server: Server) -> None:
    window = Window(watched, server)
    window.policy(TRACKING["Properties"])
    window.schedule("morning", 20, MinCapacity=3)
    window.schedule("evening", 50, MinCapacity=1)
    assert_alike(window)


def test_cloudwatch_counts_the_requests(watched: Watched, server: Server) -> None:
    scaled = Scaled(watched, server)
    if watched.clock.now().hour == 23:
        watched.clock.advance(minutes=60)  # one day
    begins = watched.clock.now()
    for requests in (3, 0, 5):
        watched.minutes(1, requests=requests)
    found = read_invocations(
        scaled.account.client("cloudwatch"),
        endpoint="ranker",
        variants=["primary"],
        day=begins,
        now=begins.astimezone(),
    )
    first = begins.hour * 60 + begins.minute
    assert found[first : first + 3] == [3, 0, 5]
