"""Waking what sleeps: one copy, and components by keys of their own."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infra.parameters.scaling_properties import sleep_policies
from servable.rehearse import rehearsal
from servable.rehearse.command import rehearse
from servable_scaling.autoscaling import WatchedAlarm
from tests.servable_scaling.minutes import Numbers, at

ROOT = Path(__file__).resolve().parents[3]
QUIET = "minute,requests\n20,1\n21,1\n120,1\n359,0\n"


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 1)
    (tmp_path / "day.csv").write_text(QUIET)

    def run(environment: str, *options: str) -> Any:
        given = ["--environments", str(ROOT / "examples" / "variants"), "--json", *options]
        traffic = ["--day", str(tmp_path / "day.csv")]
        result = CliRunner().invoke(rehearse, [environment, *traffic, *given])
        return json.loads(result.stdout)

    return run


def test_one_request_that_finds_no_copy_starts_one_and_not_two(rehearsed: Any) -> None:
    assert max(minute["answering"] for minute in rehearsed("sleeping")["minutes"]) == 1


@pytest.mark.parametrize(("minutes", "seconds"), [(4, 240), (5, 300), (60, 300)])
def test_what_fell_asleep_within_the_cooldown_of_a_wake_can_be_woken(
    minutes: int, seconds: int
) -> None:
    wake, _ = sleep_policies(minutes)
    assert wake.policy["StepScalingPolicyConfiguration"]["Cooldown"] == seconds


def test_a_copy_that_starts_soon_after_the_last_one_fell_asleep_is_not_ended() -> None:
    _, asleep = sleep_policies(15)
    named = {"AlarmName": "sleep", "Namespace": "AWS/SageMaker", "MetricName": asleep.metric}
    alarm = WatchedAlarm({**named, "Statistic": "Sum", "Period": 60, **asleep.alarm})
    quiet = Numbers(InvocationsPerCopy=[0.0] * 15 + [None])
    states = [alarm.look(quiet, at(minute))[1] for minute in range(1, 20)]
    assert (states[14], states[17:]) == ("ALARM", ["OK", "OK"])


@pytest.mark.parametrize("component", ["ranker", "candidates"])
def test_a_component_that_sleeps_is_rehearsed_beside_one_that_does_not(
    rehearsed: Any, component: str
) -> None:
    sleep = rehearsed("components", "--variant", component)["sleep"]
    assert sleep["instance_hours_without_sleep"] == 6
