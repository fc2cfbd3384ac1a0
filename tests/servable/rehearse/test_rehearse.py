"""`servable rehearse`: a file of traffic in, a verdict out."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from servable.load.measurement import CURVE
from servable.rehearse import rehearsal
from servable.rehearse.command import rehearse
from servable_scaling.rehearsal.traffic import PROFILES, profile
from tests.conftest import VALID
from tests.servable.tune.example_content import content

Write = Callable[..., ValidFile]
SCALED = VALID + (
    "min_instances = 2\nmax_instances = 12\n[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
    "safety_factor = 0.7\n[alarms]\np99_latency_ms = 100\n[traffic]\npeak_rps = 400\n"
)


@pytest.fixture
def run(environment: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    # Two cost less than twelve; `make bench-verdicts` judges verdicts by twelve.
    monkeypatch.setattr(rehearsal, "SIMILAR_DAYS", 2)

    def call(*options: str, text: str = SCALED) -> Result:
        monkeypatch.chdir(environment(text).root)
        return CliRunner().invoke(rehearse, ["prod", *options])

    return call


def result(found: Result) -> Any:
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", PROFILES)
def test_a_shape_reaches_its_peak(name: str) -> None:
    assert max(profile(name, peak_rps=50, base_rps=5)) == pytest.approx(3000, rel=0.001)


@pytest.mark.parametrize("name", PROFILES)
def test_a_shape_never_goes_below_its_base(name: str) -> None:
    assert min(profile(name, peak_rps=50, base_rps=5)) == pytest.approx(300)


def test_a_spike_breaks_the_objective_in_the_minute_in_which_it_comes(
    run: Callable[..., Result],
) -> None:
    assert "breaks at 12:00" in run("--profile", "spike").stdout


def test_without_an_objective_the_verdict_is_of_refused_requests(
    run: Callable[..., Result],
) -> None:
    text = SCALED.replace("p99_latency_ms = 100", "")
    last = run("--profile", "spike", text=text).stdout.splitlines()[-1]
    assert re.fullmatch(
        r"breaks at 12:\d\d: requests are refused in \d+ to \d+ of 1,440 minutes, [\d,]+ in all",
        last,
    )


def test_a_day_outside_of_the_objective_ends_with_1(run: Callable[..., Result]) -> None:
    run("--help")  # from here the project is the working folder
    ended = rehearse.main(["prod", "--profile", "spike"], standalone_mode=False)
    assert ended == 1


def test_a_day_that_rises_slowly_holds_it(run: Callable[..., Result]) -> None:
    found = run("--profile", "daily", "--set", "variants.primary.scaling.safety_factor=0.5")
    assert "holds: p99 at most 100 ms" in found.stdout


KNOWN = ("--set", "variants.primary.start_seconds=240")
SEEN = (*KNOWN, "--set", "variants.primary.scaling.metric_delay_seconds=60")


def test_without_start_and_delay_the_day_runs_at_both_ends_of_their_ranges(
    run: Callable[..., Result],
) -> None:
    paces = result(run("--profile", "daily", "--json"))["paces"]
    assert [(one["start_minutes"], one["metric_delay_seconds"]) for one in paces] == [
        (3, 0), (3, 180), (7, 0), (7, 180),
    ]  # fmt: skip


def test_with_start_and_delay_as_seen_there_is_one_pace(run: Callable[..., Result]) -> None:
    (pace,) = result(run("--profile", "daily", "--json", *SEEN))["paces"]
    assert (pace["start_minutes"], pace["metric_delay_seconds"]) == (4, 60)


# The spike is over before instances come that take longer than it lasts: 10:00 to 10:08.
def test_what_depends_on_the_start_cannot_be_told_without_it(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    ramp = "".join(f"{minute},{60 * (100 + 3 * max(0, minute - 60))}\n" for minute in range(100))
    (tmp_path / "day.csv").write_text(ramp)
    last = run("--traffic", str(tmp_path / "day.csv")).stdout.splitlines()[-1]
    assert re.match("cannot be told: .*state variants.primary.start_seconds", last)


def test_what_cannot_be_told_ends_with_3(run: Callable[..., Result], tmp_path: Path) -> None:
    run("--help")
    (tmp_path / "day.csv").write_text("0,6000\n1,6000\n")
    one = ["--p99-ms", "97", "--traffic", str(tmp_path / "day.csv")]
    assert rehearse.main(["prod", *one], standalone_mode=False) == 3


def test_bursts_that_the_file_states_break_what_holds_without(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "day.csv").write_text("".join(f"{minute},8400\n" for minute in range(60)))
    day = ("--traffic", str(tmp_path / "day.csv"), "--json", "--rate-per-instance", "100")
    stated = ("--set", "traffic.peak_to_mean=2.5", "--set", "traffic.burst_seconds=1")
    verdicts = [result(run(*day, *more))["verdict"] for more in ((), stated)]
    assert verdicts[1] == "does not hold" != verdicts[0]


def test_a_deployment_takes_as_long_as_plan_says(run: Callable[..., Result]) -> None:
    text = SCALED + '[rollout]\nstrategy = "canary"\ncanary_percent = 10\nbake_minutes = 10\n'
    found = result(run("--profile", "daily", "--deploy-at", "180", "--json", *KNOWN, text=text))
    # A start of 4 minutes, a bake of the canary, and the last bake: the alarms' window of 3 and one more.
    assert found["deployment_minutes"] == 4 + 10 + 4


def test_a_file_may_leave_minutes_out(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("minute,requests\n0,600\n3,1200\n")
    minutes = result(run("--traffic", str(file), "--json"))["minutes"]
    assert [one["requests"] for one in minutes] == [600, 0, 0, 1200]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,12\nx,12\n", "day.csv:2: x,12 is no minute"),
        ("0,12\n0,13\n", "day.csv:2: minute 0 comes after minute 0"),
        ("0,-1\n", "day.csv:1: 0,-1 is no minute"),
        ("", "has no line"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(
    run: Callable[..., Result], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "day.csv").write_text(text)
    assert said in run("--traffic", str(tmp_path / "day.csv")).output


def test_either_a_file_or_a_shape_is_given(run: Callable[..., Result]) -> None:
    assert "either --traffic FILE or --profile" in run().output


def test_the_day_may_be_stated_in_the_file(run: Callable[..., Result]) -> None:
    text = SCALED + 'profile = "daily"\nquiet_rps = 10\n'
    minutes = result(run("--json", text=text))["minutes"]
    assert (minutes[180]["requests"], minutes[900]["requests"]) == (600, 24_000)


def test_a_file_of_traffic_may_be_stated_too(
    run: Callable[..., Result], environment: Write
) -> None:
    (environment().root / "day.csv").write_text("0,600\n2,1200\n")
    minutes = result(run("--json", text=SCALED + 'day = "day.csv"\n'))["minutes"]
    assert [one["requests"] for one in minutes] == [600, 0, 1200]


def test_a_diff_is_written_only_for_the_file_itself(run: Callable[..., Result]) -> None:
    found = run("--profile", "daily", "--compare", "--write", "--set", "alarms.p99_latency_ms=9")
    assert "--write goes with --compare, and not with --set" in found.output


def test_the_instance_is_as_given(run: Callable[..., Result]) -> None:
    given = ("--rate-per-instance", "50", "--p50-ms", "10", "--p99-ms", "30")
    found = result(run("--profile", "daily", "--json", *given))["measured"]
    assert (found["rate_rps"], found["p50_ms"], found["p99_ms"]) == (50, 10, 30)


def test_the_newest_load_test_of_the_environment_is_the_instance(
    run: Callable[..., Result], environment: Write
) -> None:
    curve = content(trials=4).curve
    root = environment(SCALED).root
    for name, of in (("older", "prod"), ("newer", "staging")):
        file = root / ".servable" / "load" / name / CURVE
        file.parent.mkdir(parents=True)
        replace(curve, asked=replace(curve.asked, environment=of)).write(file)
    fastest = max(one.throughput_rps.value for one in curve.valid)
    found = result(run("--profile", "daily", "--json"))["measured"]
    assert (found["rate_rps"], found["source"].partition(";")[0]) == (
        fastest,
        "rate: servable load of this computer",
    )


def test_a_key_that_is_set_for_this_run_counts(run: Callable[..., Result]) -> None:
    minutes = result(
        run("--profile", "daily", "--json", "--set", "variants.primary.min_instances=7")
    )
    assert minutes["minutes"][180]["answering"] == 7


def test_the_cost_is_that_of_the_instances_paid(run: Callable[..., Result]) -> None:
    found = result(run("--profile", "daily", "--json"))
    paid = sum(one["paid"] for one in found["minutes"])
    assert found["instance_hours"] == pytest.approx(paid / 60)


def test_a_price_that_the_file_states_goes_before_the_catalogs(run: Callable[..., Result]) -> None:
    text = SCALED + '[prices.instance_usd_per_hour]\n"ml.c5.xlarge" = 2.5\n'
    found = result(run("--profile", "daily", "--json", text=text))
    assert found["usd"] == pytest.approx(2.5 * found["instance_hours"])


def test_a_serverless_variant_is_not_rehearsed(run: Callable[..., Result]) -> None:
    text = VALID.replace(
        'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 4096, max_concurrency = 5 }"
    )
    assert "only real-time variants with instances" in run("--profile", "daily", text=text).output
