"""`servable rehearse` and `cost` of a variant that sleeps: who waits, what it saves, what is best."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from infra.parameters.scaling_properties import build_sleep_policies
from servable.cost.command import cost
from servable.rehearse import rehearsal
from servable.rehearse.command import rehearse
from servable_client.retries import WAKE_LOOK_SECONDS
from servable_scaling.autoscaling import WatchedAlarm
from servable_scaling.rehearsal.scenario import ASKS_AGAIN_SECONDS
from servable_scaling.rehearsal.traffic import draw_whole_requests
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable_scaling.minutes import Numbers, at

Run = Callable[..., Result]
PACE = "start_seconds = 245\n[variants.primary.scaling]\nmetric_delay_seconds = 60\n"
SLEEPING = (
    VALID + f"sleep_after_minutes = 15\nmax_instances = 1\n{PACE}[traffic]\nday = 'day.csv'\n"
)
# One request at 00:20, and 200 a minute from 02:00 to 04:00; then nothing for two hours.
DAY = "0,0\n20,1\n" + "".join(f"{minute},200\n" for minute in range(120, 240)) + "359,0\n"


@pytest.fixture
def run(environment: Callable[..., ValidFile], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 2)
    root = environment().root
    (root / "day.csv").write_text(DAY)

    def call(*options: str, command: Any = rehearse, text: str = SLEEPING) -> Result:
        monkeypatch.chdir(environment(text).root)
        return CliRunner().invoke(command, ["prod", *options])

    return call


def test_callers_who_find_no_copy_wait_for_the_alarm_and_the_start(run: Run) -> None:
    slept = json.loads(run("--json").stdout)
    # Asleep at 00:00; a request in the minute of 00:20 is seen at 00:22, and 245 s later a copy answers.
    minutes = slept["minutes"]
    assert [minutes[at]["answering"] for at in (25, 26)] == [0, 1]
    # One at 00:20; those of 02:00:00 to 02:06:05.
    assert slept["sleep"]["waiting_callers"] == pytest.approx(1 + 200 * (6 + 5 / 60))
    assert slept["sleep"]["longest_wait_seconds"] == pytest.approx(120 + 245 + 10)
    # 15 minutes of zeros are seen a minute later: from 00:22 to 00:43, from 02:02 to 04:16, each with ten.
    paid = [at for at, minute in enumerate(slept["minutes"]) if minute["paid"]]
    assert paid == [*range(22, 53), *range(122, 266)]
    assert slept["sleep"]["instance_hours_without_sleep"] == 6
    assert slept["verdict"] == "holds"
    said = r"1,218 callers find no copy: 1,218 wait(.|\n)*scaling to zero saves"
    assert re.search(said, run().stdout)


def test_callers_who_fail_do_not_hold_and_never_to_sleep_is_tried_without_the_keys(
    run: Run,
) -> None:
    found = json.loads(run("--json", "--set", "endpoint.wake_seconds=300").stdout)
    assert found["verdict"] == "does not hold"
    assert found["sleep"]["failed_callers"] == pytest.approx(1 + 200 * 65 / 60)

    # A key without a value is as if no file had it.
    keys = ("sleep_after_minutes=", "scaling=", "max_instances=")
    sets = [word for key in keys for word in ("--set", f"variants.primary.{key}")]
    found = json.loads(run("--json", *sets).stdout)
    assert (found["sleep"], found["instance_hours"]) == (None, 6)


def test_what_cannot_be_told_or_compared_of_a_sleeping_variant_is_said(run: Run) -> None:
    text = SLEEPING.replace(PACE, "")
    last = run("--set", "endpoint.wake_seconds=420", text=text).stdout.splitlines()[-1]
    assert re.match(r"cannot be told: .*scaling\.metric_delay_seconds", last)

    assert "AWS does not document how long" in run("--deploy-at", "100").output
    ran = run("--compare")
    assert ran.exit_code == 2
    assert "--set variants.primary.sleep_after_minutes=MINUTES" in ran.output


def test_whole_requests_and_the_pauses_between_wake_and_sleep() -> None:
    assert {0.0, 1.0} <= set(draw_whole_requests([0.25] * 100, 3)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert sum(draw_whole_requests([0.25] * 20_000, 3)) == pytest.approx(5_000, rel=0.03)
    assert ASKS_AGAIN_SECONDS == WAKE_LOOK_SECONDS

    for minutes, seconds in [(4, 240), (5, 300), (60, 300)]:
        wake, _ = build_sleep_policies(minutes)
        assert wake.policy["StepScalingPolicyConfiguration"]["Cooldown"] == seconds

    _, asleep = build_sleep_policies(15)
    named = {"AlarmName": "sleep", "Namespace": "AWS/SageMaker", "MetricName": asleep.metric}
    alarm = WatchedAlarm({**named, "Statistic": "Sum", "Period": 60, **asleep.alarm})
    quiet = Numbers(InvocationsPerCopy=[0.0] * 15 + [None])
    states = [alarm.update_state(quiet, at(minute))[1] for minute in range(1, 20)]
    assert (states[14], states[17:]) == ("ALARM", ["OK", "OK"])


def test_cost_shows_the_stated_day_with_and_without_sleep(
    run: Run, environment: Callable[..., ValidFile], tmp_path: Path
) -> None:
    assert "2.9 instance hours instead of 6.0 without sleep, $" in run(command=cost).stdout
    text = SLEEPING.replace("[traffic]\nday = 'day.csv'\n", "")
    assert "the day is not stated; set profile" in run(command=cost, text=text).stdout
    (environment(SLEEPING).root / "day.csv").write_text("0,x\n")
    assert "day.csv:1: 0,x isn't a minute" in run(command=cost).output


@pytest.mark.long
def test_a_variant_or_component_beside_another_sleeps_and_one_request_starts_one_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 1)
    (tmp_path / "day.csv").write_text("minute,requests\n20,1\n21,1\n120,1\n359,0\n")
    day = ["--day", str(tmp_path / "day.csv"), "--json"]
    given = [*day, "--environments", str(ROOT / "examples" / "variants")]
    for words in ("sleeping", "components --variant ranker", "components --variant candidates"):
        found = json.loads(CliRunner().invoke(rehearse, [*words.split(), *given]).stdout)
        assert found["sleep"]["instance_hours_without_sleep"] == 6
        assert max(minute["answering"] for minute in found["minutes"]) == 1
