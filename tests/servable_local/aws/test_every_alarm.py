"""Every alarm of environments/prod.toml on what requests bring fires when it should, and recovers.

Who adds an alarm on another metric of requests adds its fault to `TROUBLES`. Alarms on
instances, logs and computed metrics: test_alarms_in_time.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.synthesised import DeployedNames
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long

MICROSECONDS = 1e6


def _slow(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
    for container in deployed.containers():
        container.seconds = threshold / MICROSECONDS


def _failing(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
    for container in deployed.containers():
        container.status = 503 if threshold else 200


def _refusing(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
    for container in deployed.containers():
        container.status = 400 if threshold else 200


def _delayed(deployed: DeployedNames, watched: Watched, threshold: float) -> None:
    watched.inside(deployed.endpoint).overhead_seconds = threshold / MICROSECONDS


# {metric: how to bring it above a threshold; a threshold of 0 mends it}
TROUBLES: dict[str, Callable[[DeployedNames, Watched, float], None]] = {
    "ModelLatency": _slow,
    "OverheadLatency": _delayed,
    "Invocation4XXErrors": _refusing,
    "Invocation5XXErrors": _failing,
}


@pytest.fixture(scope="module")
def deployed(
    project_templates: dict[str, dict[str, Any]], embedded: LocalAws, launcher: Launcher
) -> DeployedNames:
    return DeployedNames(embedded, launcher, project_templates["prod"])


@pytest.fixture
def watched(deployed: DeployedNames, clock: ManualClock, server: Server) -> Watched:
    watched = Watched(deployed.account, clock, server)
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
        done = deployed.account.client("cloudwatch").describe_alarm_history(
            AlarmName=alarm["AlarmName"], HistoryItemType="Action"
        )["AlarmHistoryItems"]
        said = f"Successfully executed action {alarm['AlarmActions'][0]}"
        assert [one["HistorySummary"] for one in done[:2]] == [said, said]
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

    _failing(deployed, watched, 1)
    watched.minutes(1, endpoint=deployed.endpoint)
    _failing(deployed, watched, 0)
    watched.minutes(4, endpoint=deployed.endpoint)
    assert {alarm["StateValue"] for alarm in deployed.alarms()} == {"OK"}
