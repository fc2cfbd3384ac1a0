"""`servable rehearse`: a file of traffic in, a verdict out."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from servable.load.measurement import CURVE
from servable.project import account as aws_account
from servable.rehearse import command, rehearsal
from servable.rehearse.command import rehearse
from servable_scaling.rehearsal import ProfileName
from servable_scaling.rehearsal.traffic import PROFILES, build_profile
from tests.conftest import VALID
from tests.servable.tune.example_content import content

Run = Callable[..., Result]
Write = Callable[..., ValidFile]
SCALED = VALID + (
    "min_instances = 2\nmax_instances = 12\n[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
    "safety_factor = 0.7\n[alarms]\np99_latency_ms = 100\n[traffic]\npeak_rps = 400\n"
)


@pytest.fixture
def run(environment: Write, monkeypatch: pytest.MonkeyPatch) -> Run:
    # Two cost less than twelve; `make bench-verdicts` judges verdicts by twelve.
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 2)

    def call(*options: str, text: str = SCALED) -> Result:
        monkeypatch.chdir(environment(text).root)
        return CliRunner().invoke(rehearse, ["prod", *options])

    return call


def result(found: Result) -> Any:
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", PROFILES)
def test_a_shape_reaches_its_peak_and_never_goes_below_its_base(name: ProfileName) -> None:
    assert max(build_profile(name, peak_rps=50, base_rps=5)) == pytest.approx(3000, rel=0.001)
    assert min(build_profile(name, peak_rps=50, base_rps=5)) == pytest.approx(300)


def test_a_spike_breaks_the_objective_when_it_comes(run: Run) -> None:
    assert "breaks at 12:00" in run("--set", "traffic.profile=spike").stdout

    run("--help")  # from here the project is the working folder
    ended = rehearse.main(["prod", "--set", "traffic.profile=spike"], standalone_mode=False)
    assert ended == 1


def test_without_an_objective_the_verdict_is_of_refused_requests(run: Run) -> None:
    text = SCALED.replace("p99_latency_ms = 100", "")
    last = run("--set", "traffic.profile=spike", text=text).stdout.splitlines()[-1]
    assert re.fullmatch(
        r"breaks at 12:\d\d: requests are refused in \d+ to \d+ of 1,440 minutes, [\d,]+ in all",
        last,
    )


def test_a_day_that_rises_slowly_holds_it(run: Run) -> None:
    found = run(
        "--set", "traffic.profile=daily", "--set", "variants.primary.scaling.safety_factor=0.5"
    )
    assert "holds: p99 at most 100 ms" in found.stdout


KNOWN = ("--set", "variants.primary.start_seconds=240")
SEEN = (*KNOWN, "--set", "variants.primary.scaling.metric_delay_seconds=60")


def test_the_day_runs_at_stated_paces_or_at_the_ends_of_their_ranges(run: Run) -> None:
    paces = result(run("--set", "traffic.profile=daily", "--json"))["paces"]
    assert [(one["start_minutes"], one["metric_delay_seconds"]) for one in paces] == [
        (3, 0), (3, 180), (7, 0), (7, 180),
    ]  # fmt: skip
    (pace,) = result(run("--set", "traffic.profile=daily", "--json", *SEEN))["paces"]
    assert (pace["start_minutes"], pace["metric_delay_seconds"]) == (4, 60)


# The spike is over before instances come that take longer than it lasts: 10:00 to 10:08.
def test_what_depends_on_the_start_cannot_be_told(run: Run, tmp_path: Path) -> None:
    ramp = "".join(f"{minute},{60 * (100 + 3 * max(0, minute - 60))}\n" for minute in range(100))
    (tmp_path / "day.csv").write_text(ramp)
    last = run("--day", str(tmp_path / "day.csv")).stdout.splitlines()[-1]
    assert re.match("cannot be told: .*set variants.primary.start_seconds", last)

    run("--help")
    (tmp_path / "day.csv").write_text("0,6000\n1,6000\n")
    one = ["--per-instance", "100,20,97", "--day", str(tmp_path / "day.csv")]
    assert rehearse.main(["prod", *one], standalone_mode=False) == 3


def test_a_deployment_takes_as_long_as_plan_says(run: Run) -> None:
    text = SCALED + '[rollout]\nstrategy = "canary"\ncanary_percent = 10\nbake_minutes = 10\n'
    found = result(
        run("--set", "traffic.profile=daily", "--deploy-at", "180", "--json", *KNOWN, text=text)
    )
    # A start of 4 minutes, a bake of the canary, and the last bake: the alarms' window of 3 and one more.
    assert found["deployment_minutes"] == 4 + 10 + 4


def test_a_day_may_leave_minutes_out_or_be_captured(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("minute,requests\n0,600\n3,1200\n")
    minutes = result(run("--day", str(file), "--json"))["minutes"]
    assert [one["requests"] for one in minutes] == [600, 0, 0, 1200]

    record = {"captureData": {}, "eventMetadata": {"inferenceTime": "2026-11-20T00:02:00Z"}}
    (tmp_path / "day.jsonl").write_text(f"{json.dumps(record)}\n" * 3)
    for place in (tmp_path, tmp_path / "day.jsonl"):
        minutes = result(run("--day", str(place), "--json"))["minutes"]
        assert [one["requests"] for one in minutes] == [0, 0, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,12\nx,12\n", "day.csv:2: x,12 isn't a minute"),
        ("0,12\n0,13\n", "day.csv:2: minute 0 comes after minute 0"),
        ("0,-1\n", "day.csv:1: 0,-1 isn't a minute"),
        ("", "the file is empty"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_line(
    run: Run, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "day.csv").write_text(text)
    assert said in run("--day", str(tmp_path / "day.csv")).output


def test_what_cannot_be_rehearsed_is_said(run: Run) -> None:
    ran = run()
    assert ran.exit_code == 2
    assert "[traffic] of environments/prod.toml describes no day; set profile and peak_rps" in (
        ran.output
    )
    assert "--set traffic.profile=daily --set traffic.peak_rps=100, or --day PLACE" in ran.output
    found = run(
        "--set", "traffic.profile=daily", "--compare", "--write", "--set", "alarms.p99_latency_ms=9"
    )
    assert "--write requires --compare and can't be combined with --set" in found.output
    text = VALID.replace(
        'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 4096, max_concurrency = 5 }"
    )
    assert (
        "only real-time variants with instances"
        in run("--set", "traffic.profile=daily", text=text).output
    )


def test_a_profile_of_this_run_replaces_the_files_day(run: Run, environment: Write) -> None:
    (environment().root / "day.csv").write_text("0,600\n")
    text, profile_set = SCALED + 'day = "day.csv"\n', ("--set", "traffic.profile=daily")
    assert len(result(run(*profile_set, "--json", text=text))["minutes"]) == 1440
    both = run(*profile_set, "--set", "traffic.day=day.csv", text=text)
    assert "use either --set traffic.profile or --set traffic.day, not both" in both.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--day", "2026-02-30"), "--day 2026-02-30 isn't a date; write YYYY-MM-DD"),
        (("--day", "day.csv", "--local"), "--local needs --day with a date or s3://BUCKET/PREFIX"),
        (("--local",), "--local needs --day"),
        (("--day", "absent.csv"), "cannot read absent.csv: No such file or directory"),
        (("--per-instance", "1,2"), "write RPS or RPS,P50,P99, such as 164 or 164,20,60"),
        (("--per-instance", "100,60,20"), "p99 is below p50"),
    ],
)
def test_an_option_that_cannot_be_used_is_rejected_with_the_way_to_write_it(
    run: Run, options: tuple[str, ...], said: str
) -> None:
    ran = run(*options)
    assert said in " ".join(ran.output.split())
    assert ran.exit_code != 0


def test_a_date_is_counted_by_cloudwatch_for_the_files_endpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def count(client: Any, **of: Any) -> list[float]:
        asked.update(of)
        return [600.0]

    monkeypatch.setattr(command, "read_invocations", count)
    monkeypatch.setattr(aws_account.Account, "check_credentials", lambda _: None)
    monkeypatch.setattr(aws_account.Account, "client", lambda *_: None)
    minutes = result(run("--day", "2026-11-20", "--json"))["minutes"]
    assert [one["requests"] for one in minutes] == [600]
    assert asked["day"] == datetime(2026, 11, 20)
    assert (asked["endpoint"], asked["variants"]) == ("ranker", ["primary"])


def test_the_day_may_be_stated_in_the_file(run: Run, environment: Write) -> None:
    text = SCALED + 'profile = "daily"\nquiet_rps = 10\n'
    minutes = result(run("--json", text=text))["minutes"]
    assert (minutes[180]["requests"], minutes[900]["requests"]) == (600, 24_000)

    (environment().root / "day.csv").write_text("0,600\n2,1200\n")
    minutes = result(run("--json", text=SCALED + 'day = "day.csv"\n'))["minutes"]
    assert [one["requests"] for one in minutes] == [600, 0, 1200]


def test_the_newest_load_test_is_the_instance(run: Run, environment: Write) -> None:
    curve = content(trials=4).curve
    root = environment(SCALED).root
    for name, of in (("older", "prod"), ("newer", "staging")):
        file = root / ".servable" / "load" / name / CURVE
        file.parent.mkdir(parents=True)
        replace(curve, asked=replace(curve.asked, environment=of)).write(file)
    fastest = max(one.throughput_rps.value for one in curve.valid_steps)
    found = result(run("--set", "traffic.profile=daily", "--json"))["measured"]
    assert (found["rate_rps"], found["source"].partition(";")[0]) == (
        fastest,
        "rate: servable load of this computer",
    )


def test_a_key_that_is_set_for_this_run_counts(run: Run) -> None:
    minutes = result(
        run("--set", "traffic.profile=daily", "--json", "--set", "variants.primary.min_instances=7")
    )
    assert minutes["minutes"][180]["answering"] == 7


def test_the_instance_is_as_given_and_costs_the_file_s_price(run: Run) -> None:
    text = SCALED + '[prices.instance_usd_per_hour]\n"ml.c5.xlarge" = 2.5\n'
    given = ("--per-instance", "50,10,30")
    found = result(run("--set", "traffic.profile=daily", "--json", *given, text=text))
    measured = found["measured"]
    assert (measured["rate_rps"], measured["p50_ms"], measured["p99_ms"]) == (50, 10, 30)
    paid = sum(one["paid"] for one in found["minutes"])
    assert found["instance_hours"] == pytest.approx(paid / 60)
    assert found["usd"] == pytest.approx(2.5 * found["instance_hours"])
