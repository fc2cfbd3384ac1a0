"""Every alarm fires when its condition holds, not a period earlier than it claims, and recovers.

Each alarm is taken through good minutes, as many bad ones as it claims, and good ones again. Those of
environments/prod.toml on what requests bring get requests: who adds an alarm on another metric of requests
adds its fault to `TROUBLES`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.catalog.metrics import find_unit
from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.api import CloudWatchApi
from servable_local.aws.local_aws import REGION
from servable_scaling.alarms.query import Metric
from tests.servable_local.aws.everything_on import QUEUED, watching
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import DeployedNames
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long


OBJECTIVE = "ranker-objective"
BREAKING = re.compile(r"ranker-(primary|challenger)-(p\d\d-latency|5xx)$")
ASYNC_FAILURES = ("failed-requests", "expired-requests", "failed-notifications")
# Those of one group go through it together: no two look at the same metric in another way.
ALONE = ["p50-latency", "p90-latency", "p99-latency", "5xx", "no-traffic", ""]


@dataclass(frozen=True)
class Course:
    """States of one alarm, and of the composite, minute by minute."""

    before: str
    bad: list[str]
    after: str
    objective_before: str
    objective_in_bad: list[str]
    objective_after: str


class Watch:
    """Gives each alarm a minute's good or bad samples, as SageMaker would publish them."""

    def __init__(self, account: Account, clock: ManualClock, template: dict[str, Any]) -> None:
        self.alarms = {
            resource["Properties"]["AlarmName"]: resource["Properties"]
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::CloudWatch::Alarm"
        }
        assert account.deploy(template) == "CREATE_COMPLETE"
        self._account, self._clock = account, clock
        clock.advance(seconds=60 - clock.now().second)

    def _sample(self, alarm: Mapping[str, Any], *, bad: bool) -> None:
        """`alarm`: its properties in the template."""
        if "Metrics" not in alarm:
            threshold = float(alarm["Threshold"])
            # Where nothing at all is allowed, one is too many.
            self._add(alarm, threshold * 1.01 or 1 if bad else threshold * 0.1)
            return
        stats = {one["Id"]: one["MetricStat"] for one in alarm["Metrics"] if "MetricStat" in one}
        of = {key: stat["Metric"] for key, stat in stats.items()}
        if "-rollback-" in alarm["AlarmName"]:
            self._beside_old_fleet(of, bad)
            return
        by_name = {metric["MetricName"]: metric for metric in of.values()}
        if alarm["ComparisonOperator"] == "LessThanThreshold":  # no traffic
            if not bad:
                self._add(by_name["Invocations"], 1)
            return
        most = round(float(alarm["Threshold"]) + 0.5)
        for _ in range(7):  # requests, each answered by one of so many instances
            self._add(by_name["Invocations"], 1)
            self._add(by_name["InvocationsPerInstance"], 1 / (most if bad else most - 1))

    def _beside_old_fleet(self, of: Mapping[str, Any], bad: bool) -> None:
        """A request to the new fleet, refused or answered, and an answered one to the old fleet."""
        self._add(of["new_errors"], float(bad))
        if of["errors"]["MetricName"] != "Invocation5XXErrors":  # those would page for the variant
            self._add(of["errors"], float(bad))
            self._add(of["errors"], 0.0)

    def _add(self, metric: Mapping[str, Any], value: float) -> None:
        dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
        name, at = metric["MetricName"], self._clock.now()
        found = Metric.from_dimensions(metric["Namespace"], name, dimensions)
        cloudwatch = CloudWatchApi.cloudwatches.provide_service(self._account.number, REGION)
        cloudwatch.metrics.add(found, value, unit=find_unit(name), at=at)

    def minute(self, names: list[str], *, bad_until: int, now: int) -> dict[str, str]:
        """The states after it. Each alarm is bad in the first minutes, as many as it claims."""
        for name in names:
            bad = now < min(bad_until, _claimed(self.alarms[name]))
            self._sample(self.alarms[name], bad=bad)
        self._clock.advance(minutes=1)
        describe = self._account.client("cloudwatch").describe_alarms
        found = describe(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
        everything = found["MetricAlarms"] + found["CompositeAlarms"]
        return {one["AlarmName"]: one["StateValue"] for one in everything}

    def courses(self, names: list[str]) -> dict[str, Course]:
        longest = max(_claimed(self.alarms[name]) for name in names)
        for _ in range(2):
            before = self.minute(names, bad_until=0, now=0)
        states = [self.minute(names, bad_until=longest, now=at) for at in range(longest)]
        after = self.minute(names, bad_until=0, now=0)
        return {
            name: Course(
                before=before[name],
                bad=[one[name] for one in states[: _claimed(self.alarms[name])]],
                after=after[name],
                objective_before=before[OBJECTIVE],
                objective_in_bad=[one[OBJECTIVE] for one in states],
                objective_after=after[OBJECTIVE],
            )
            for name in names
        }


def _claimed(alarm: dict[str, Any]) -> int:
    """Minutes, read where a person reads them."""
    said = re.search(r"at the earliest (\d+) min", alarm["AlarmDescription"])
    assert said is not None
    return int(said[1])


@pytest.fixture(scope="module")
def courses(
    accounts: Account, clock: ManualClock, watching_template: dict[str, Any]
) -> dict[str, Course]:
    watch = Watch(accounts.another(), clock, watching_template)
    groups: dict[str, list[str]] = {group: [] for group in ALONE}
    for name in sorted(watch.alarms):
        groups[next(group for group in ALONE if name.endswith(group))].append(name)
    found: dict[str, Course] = {}
    for names in groups.values():
        found |= watch.courses(names)
    return found


def test_every_alarm_fires_when_it_claims_and_recovers(courses: dict[str, Course]) -> None:
    of_the_gpu = {name.partition("-challenger-")[2] for name in courses}
    kinds = "p50-latency p90-latency p99-latency overhead-latency 4xx 5xx model-errors cpu memory"
    kinds += " disk gpu gpu-memory no-traffic at-max"
    found = {one for one in of_the_gpu if one and not re.search("[0-9a-f]{8}$", one)}
    assert found == {*kinds.split()}
    for name, one in courses.items():
        assert (one.before, one.bad[-1], one.after) == ("OK", "ALARM", "OK"), name
        assert "ALARM" not in one.bad[:-1], name


def test_the_composite_follows_what_breaks_the_objective_alone(courses: dict[str, Course]) -> None:
    breaking = {name: course for name, course in courses.items() if BREAKING.match(name)}
    assert {one.objective_in_bad[-1] for one in breaking.values()} == {"ALARM"}
    assert {state for course in courses.values() for state in course.objective_in_bad[:2]} == {"OK"}
    assert {course.objective_after for course in courses.values()} == {"OK"}
    others = {name: course for name, course in courses.items() if not BREAKING.match(name)}
    assert {one.objective_in_bad[-1] for one in others.values()} == {"OK"}


def test_the_alarms_of_an_asynchronous_endpoint_fire_and_recover(
    account: Account, clock: ManualClock, tmp_path: Path
) -> None:
    watch = Watch(account, clock, watching(tmp_path, QUEUED))
    failures = {f"ranker-primary-{failure}" for failure in ASYNC_FAILURES}
    courses = watch.courses(["ranker-queue-age", *sorted(failures)])
    queue = courses.pop("ranker-queue-age")
    shown = {name: (one.before, one.bad, one.after) for name, one in courses.items()}
    assert shown == dict.fromkeys(failures, ("OK", ["ALARM"], "OK"))
    assert queue.bad == ["OK"] * (len(queue.bad) - 1) + ["ALARM"]
    assert queue.after == "OK"
    objective = (queue.objective_before, queue.objective_in_bad[-1], queue.objective_after)
    assert objective == ("OK", "ALARM", "OK")


# --- on what requests bring

MICROSECONDS = 1e6


Trouble = Callable[[DeployedNames, Watched, float], None]


def _in_containers(name: str, find_value: Callable[[float], float]) -> Trouble:
    def bring(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
        for container in deployed.containers():
            setattr(container, name, find_value(threshold))

    return bring


def _delayed(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
    watched.inside(deployed.endpoint).overhead_seconds = threshold / MICROSECONDS


# {metric: how to bring it above a threshold; a threshold of 0 mends it}
TROUBLES: dict[str, Trouble] = {
    "ModelLatency": _in_containers("seconds", lambda threshold: threshold / MICROSECONDS),
    "OverheadLatency": _delayed,
    "Invocation4XXErrors": _in_containers("status", lambda threshold: 400 if threshold else 200),
    "Invocation5XXErrors": _in_containers("status", lambda threshold: 503 if threshold else 200),
}


@pytest.fixture(scope="module")
def deployed(project_templates: dict[str, dict[str, Any]], accounts: Account) -> DeployedNames:
    return DeployedNames(accounts.another(), project_templates["prod"])


@pytest.fixture
def watched(deployed: DeployedNames) -> Watched:
    watched = Watched(deployed.account)
    watched.align()
    watched.minutes(2, endpoint=deployed.endpoint)  # what is there is no longer new
    return watched


def test_every_alarms_trouble_is_known(project_templates: dict[str, dict[str, Any]]) -> None:
    of_requests = {
        resource["Properties"]["MetricName"]
        for template in project_templates.values()
        for resource in template["Resources"].values()
        if resource["Properties"].get("Namespace") == "AWS/SageMaker"
        and resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert of_requests == set(TROUBLES)


@pytest.mark.parametrize("metric", TROUBLES)
def test_an_alarm_fires_tells_its_topic_and_recovers(
    deployed: DeployedNames, watched: Watched, metric: str
) -> None:
    for alarm in deployed.alarms(metric):
        periods, states = alarm["EvaluationPeriods"], []
        for bad in [True] * periods + [False]:
            TROUBLES[metric](deployed, watched, alarm["Threshold"] * 1.5 if bad else 0)
            watched.minutes(1, endpoint=deployed.endpoint)
            states.append(watched.state(alarm["AlarmName"]))
        assert states == ["OK"] * (periods - 1) + ["ALARM", "OK"]
        describe = deployed.account.client("cloudwatch").describe_alarm_history
        done = describe(AlarmName=alarm["AlarmName"], HistoryItemType="Action")
        said = f"Successfully executed action {alarm['AlarmActions'][0]}"
        summaries = [one["HistorySummary"] for one in done["AlarmHistoryItems"]]
        assert summaries[:2] == [said, said]
        # --- half a threshold
        if metric.endswith("Latency"):
            TROUBLES[metric](deployed, watched, alarm["Threshold"] * 0.5)
            watched.minutes(periods + 1, endpoint=deployed.endpoint)
            TROUBLES[metric](deployed, watched, 0)
            assert watched.state(alarm["AlarmName"]) == "OK"


def test_no_traffic_or_one_bad_minute_wakes_nobody(
    deployed: DeployedNames, watched: Watched
) -> None:
    watched.clock.advance(minutes=10)
    assert {alarm["StateValue"] for alarm in deployed.alarms()} == {"OK"}

    for threshold, minutes in [(1, 1), (0, 4)]:
        TROUBLES["Invocation5XXErrors"](deployed, watched, threshold)
        watched.minutes(minutes, endpoint=deployed.endpoint)
    assert {alarm["StateValue"] for alarm in deployed.alarms()} == {"OK"}
