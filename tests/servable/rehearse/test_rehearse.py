"""`servable rehearse`: a file of traffic in, a verdict out."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from infra.parameters.scaling_properties import build_sleep_policies
from servable.cost.command import cost
from servable.measured.measurement import CURVE
from servable.project import account as aws_account
from servable.rehearse import command, rehearsal
from servable.rehearse.command import rehearse
from servable_client.retries import WAKE_LOOK_SECONDS
from servable_scaling.autoscaling import WatchedAlarm
from servable_scaling.rehearsal import ProfileName
from servable_scaling.rehearsal.scenario import ASKS_AGAIN_SECONDS
from servable_scaling.rehearsal.traffic import PROFILES, build_profile, draw_whole_requests
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable.tune.example_content import content
from tests.servable_scaling.minutes import Numbers, at

Run = Callable[..., Result]
Write = Callable[..., ValidFile]
SCALED = VALID + (
    "min_instances = 2\nmax_instances = 12\n[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
    "safety_factor = 0.7\n[alarms]\np99_latency_ms = 100\n[traffic]\npeak_rps = 400\n"
)
PACE = "start_seconds = 245\n[variants.primary.scaling]\nmetric_delay_seconds = 60\n"
SLEEPING = (
    VALID + f"sleep_after_minutes = 15\nmax_instances = 1\n{PACE}[traffic]\nday = 'day.csv'\n"
)
# One request at 00:20, and 200 a minute from 02:00 to 04:00; then nothing for two hours.
DAY = "0,0\n20,1\n" + "".join(f"{minute},200\n" for minute in range(120, 240)) + "359,0\n"
KNOWN = ("--set", "variants.primary.start_seconds=240")
SEEN = (*KNOWN, "--set", "variants.primary.scaling.metric_delay_seconds=60")


@pytest.fixture
def run(environment: Write, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `servable rehearse prod` in a project with the day DAY."""
    # Two cost less than twelve; `make bench-verdicts` judges verdicts by twelve.
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 2)

    (environment().root / "day.csv").write_text(DAY)

    def call(
        *options: str, text: str = SCALED, command: click.Command = rehearse, **how: Any
    ) -> Result:
        monkeypatch.chdir(environment(text).root)
        return CliRunner().invoke(command, ["prod", *options], **how)

    return call


@pytest.fixture
def asleep(run: Run) -> Run:
    return partial(run, text=SLEEPING)


def result(found: Result) -> Any:
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", PROFILES)
def test_a_shape_reaches_its_peak_and_never_goes_below_its_base(name: ProfileName) -> None:
    day = build_profile(name, peak_rps=50, base_rps=5)
    assert max(day) == pytest.approx(3000, rel=0.001)
    assert min(day) == pytest.approx(300)


@pytest.mark.long
def test_a_spike_breaks_the_objective_when_it_comes_or_requests_are_refused(run: Run) -> None:
    spike = ("--set", "traffic.profile=spike")
    broken = run(*spike, standalone_mode=False)
    assert (broken.return_value, "breaks at 12:00" in broken.stdout) == (1, True)
    last = run(*spike, text=SCALED.replace("p99_latency_ms = 100", "")).stdout.splitlines()[-1]
    refused = r"requests are refused in \d+ to \d+ of 1,440 minutes, [\d,]+ in all"
    assert re.fullmatch(rf"breaks at 12:\d\d: {refused}", last)


@pytest.mark.long
def test_a_profile_replaces_the_file_s_day_and_runs_at_the_ends_of_unknown_paces(
    run: Run, environment: Write
) -> None:
    (environment().root / "day.csv").write_text("0,600\n")
    text = SCALED + 'day = "day.csv"\n'
    found = result(run("--set", "traffic.profile=daily", "--json", text=text))
    assert len(found["minutes"]) == 1440
    assert [(one["start_minutes"], one["metric_delay_seconds"]) for one in found["paces"]] == [
        (3, 0), (3, 180), (7, 0), (7, 180),
    ]  # fmt: skip
    text = SCALED + 'profile = "daily"\nquiet_rps = 10\n'
    minutes = result(run(*SEEN, "--json", text=text))["minutes"]
    assert (minutes[180]["requests"], minutes[900]["requests"]) == (600, 24_000)


# The spike is over before instances come that take longer than it lasts: 10:00 to 10:08.
def test_what_depends_on_the_start_cannot_be_told(run: Run, tmp_path: Path) -> None:
    ramp = "".join(f"{minute},{60 * (100 + 3 * max(0, minute - 60))}\n" for minute in range(100))
    (tmp_path / "day.csv").write_text(ramp)
    last = run("--day", str(tmp_path / "day.csv")).stdout.splitlines()[-1]
    assert re.match("cannot be told: .*set variants.primary.start_seconds", last)

    (tmp_path / "day.csv").write_text("0,6000\n1,6000\n")
    one = ("--per-instance", "100,20,97", "--day", str(tmp_path / "day.csv"))
    assert run(*one, standalone_mode=False).return_value == 3


def test_a_day_is_a_file_with_minutes_left_out_captured_or_stated_in_the_file(
    run: Run, environment: Write, tmp_path: Path
) -> None:
    def count(*options: str, text: str = SCALED) -> list[float]:
        return [one["requests"] for one in result(run(*options, "--json", text=text))["minutes"]]

    file = tmp_path / "day.csv"
    file.write_text("minute,requests\n0,600\n3,1200\n")
    assert count("--day", str(file)) == [600, 0, 0, 1200]
    record = {"captureData": {}, "eventMetadata": {"inferenceTime": "2026-11-20T00:02:00Z"}}
    (tmp_path / "day.jsonl").write_text(f"{json.dumps(record)}\n" * 3)
    for place in (tmp_path, tmp_path / "day.jsonl"):
        assert count("--day", str(place)) == [0, 0, 3]
    (environment().root / "day.csv").write_text("0,600\n2,1200\n")
    stated, profile = SCALED + 'day = "day.csv"\n', ("--set", "traffic.profile=daily")
    assert count(text=stated) == [600, 0, 1200]
    both = run(*profile, "--set", "traffic.day=day.csv", text=stated)
    assert "use either --set traffic.profile or --set traffic.day, not both" in both.output
    for text, said in (
        ("0,12\nx,12\n", "day.csv:2: x,12 isn't a minute"),
        ("0,12\n0,13\n", "day.csv:2: minute 0 comes after minute 0"),
        ("0,-1\n", "day.csv:1: 0,-1 isn't a minute"),
        ("", "the file is empty"),
    ):
        file.write_text(text)
        assert said in run("--day", str(file)).output


def test_what_cannot_be_rehearsed_or_used_is_said_with_the_way_to_write_it(run: Run) -> None:
    ran = run()
    assert ran.exit_code == 2
    missing = "[traffic] of environments/prod.toml describes no day; set profile and peak_rps"
    for said in (missing, "--set traffic.profile=daily --set traffic.peak_rps=100, or --day PLACE"):
        assert said in ran.output
    daily = ("--set", "traffic.profile=daily")
    found = run(*daily, "--compare", "--write", "--set", "alarms.p99_latency_ms=9")
    assert "--write requires --compare and can't be combined with --set" in found.output
    serverless = "serverless = { memory_mib = 4096, max_concurrency = 5 }"
    found = run(*daily, text=VALID.replace('instance_type = "ml.c5.xlarge"', serverless))
    assert "only real-time variants with instances" in found.output
    for options, said in (
        (("--day", "2026-02-30"), "--day 2026-02-30 isn't a date; write YYYY-MM-DD"),
        (("--day", "day.csv", "--local"), "--local needs --day with a date or s3://BUCKET/PREFIX"),
        (("--local",), "--local needs --day"),
        (("--day", "absent.csv"), "--day absent.csv: there is no such file; check the path"),
        (("--per-instance", "1,2"), "write RPS or RPS,P50,P99, such as 164 or 164,20,60"),
        (("--per-instance", "100,60,20"), "p99 is below p50"),
    ):
        ran = run(*options)
        assert (said in " ".join(ran.output.split()), ran.exit_code != 0) == (True, True)


def test_a_date_is_counted_by_cloudwatch_for_the_files_endpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Mock(return_value=[600.0])
    monkeypatch.setattr(command, "read_invocations", count)
    monkeypatch.setattr(aws_account.Account, "check_credentials", lambda _: None)
    monkeypatch.setattr(aws_account.Account, "client", lambda *_: None)
    minutes = result(run("--day", "2026-11-20", "--json"))["minutes"]
    assert [one["requests"] for one in minutes] == [600]
    asked = [count.call_args.kwargs[name] for name in ("day", "endpoint", "variants")]
    assert asked == [datetime(2026, 11, 20), "ranker", ["primary"]]


@pytest.mark.long
def test_the_newest_load_test_is_the_instance_and_a_day_that_rises_slowly_holds(
    run: Run, environment: Write
) -> None:
    curve = content(trials=4).curve
    root = environment(SCALED).root
    for name, of in (("older", "prod"), ("newer", "staging")):
        file = root / ".servable" / "load" / name / CURVE
        file.parent.mkdir(parents=True)
        replace(curve, asked=replace(curve.asked, environment=of)).write(file)
    fastest = max(one.throughput_rps.value for one in curve.valid_steps)
    slowly = ("traffic.profile=daily", "variants.primary.scaling.safety_factor=0.5")
    sets = [word for key in slowly for word in ("--set", key)]
    found = result(run(*sets, *SEEN, "--json"))
    assert found["verdict"] == "holds"
    (pace,) = found["paces"]
    assert (pace["start_minutes"], pace["metric_delay_seconds"]) == (4, 60)
    assert found["measured"]["rate_rps"] == fastest
    assert found["measured"]["source"].startswith("rate: servable load of this computer;")


@pytest.mark.long
def test_the_instance_its_price_and_a_deployment_are_as_given(run: Run) -> None:
    text = SCALED + (
        '[rollout]\nstrategy = "canary"\ncanary_percent = 10\nbake_minutes = 10\n'
        '[prices.instance_usd_per_hour]\n"ml.c5.xlarge" = 2.5\n'
    )
    given = ("--per-instance", "50,10,30", "--deploy-at", "180", *KNOWN)
    sets = ("--set", "traffic.profile=daily", "--set", "variants.primary.min_instances=7")
    found = result(run(*sets, "--json", *given, text=text))
    measured = found["measured"]
    assert (measured["rate_rps"], measured["p50_ms"], measured["p99_ms"]) == (50, 10, 30)
    paid = sum(one["paid"] for one in found["minutes"])
    assert found["instance_hours"] == pytest.approx(paid / 60)
    assert found["usd"] == pytest.approx(2.5 * found["instance_hours"])
    assert found["minutes"][179]["answering"] == 7
    # A start of 4 minutes, a bake of the canary, and the last bake: the alarms' window of 3 and one more.
    assert found["deployment_minutes"] == 4 + 10 + 4


# --- a variant that sleeps: who waits, what it saves, what is best


def test_callers_who_find_no_copy_wait_for_the_alarm_and_the_start(asleep: Run) -> None:
    slept = json.loads(asleep("--json").stdout)
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
    assert re.search(said, asleep().stdout)


def test_callers_who_fail_do_not_hold_and_never_to_sleep_is_tried_without_the_keys(
    asleep: Run,
) -> None:
    found = json.loads(asleep("--json", "--set", "endpoint.wake_seconds=300").stdout)
    assert found["verdict"] == "does not hold"
    assert found["sleep"]["failed_callers"] == pytest.approx(1 + 200 * 65 / 60)

    # A key without a value is as if no file had it.
    keys = ("sleep_after_minutes=", "scaling=", "max_instances=")
    sets = [word for key in keys for word in ("--set", f"variants.primary.{key}")]
    found = json.loads(asleep("--json", *sets).stdout)
    assert (found["sleep"], found["instance_hours"]) == (None, 6)


def test_what_cannot_be_told_or_compared_of_a_sleeping_variant_is_said(asleep: Run) -> None:
    text = SLEEPING.replace(PACE, "")
    last = asleep("--set", "endpoint.wake_seconds=420", text=text).stdout.splitlines()[-1]
    assert re.match(r"cannot be told: .*scaling\.metric_delay_seconds", last)

    assert "AWS does not document how long" in asleep("--deploy-at", "100").output
    ran = asleep("--compare")
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
    asleep: Run, environment: Callable[..., ValidFile], tmp_path: Path
) -> None:
    assert "2.9 instance hours instead of 6.0 without sleep, $" in asleep(command=cost).stdout
    text = SLEEPING.replace("[traffic]\nday = 'day.csv'\n", "")
    assert "the day is not stated; set profile" in asleep(command=cost, text=text).stdout
    (environment(SLEEPING).root / "day.csv").write_text("0,x\n")
    assert "day.csv:1: 0,x isn't a minute" in asleep(command=cost).output


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
