"""The expected month: between minimum and maximum, with data, and each line with its assumption."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.command import cost as command
from servable.cost.cost import compute_cost
from servable.cost.expected import ExpectedMonth, compute_expected_month
from tests.conftest import VALID
from tests.servable.test_cost import PRICE, environment

SIZES = {"request_bytes": 4000, "answer_bytes": 1000}
PEAK = {"peak_rps": 100, "quiet_rps": 10}


def month(**keys: object) -> ExpectedMonth:
    told = environment(**keys)  # type: ignore[arg-type]
    found = compute_expected_month(told, compute_cost("prod", told))
    assert found is not None
    return found


def usd(found: ExpectedMonth, name: str) -> float | None:
    (line,) = (line for line in found.lines if line.name == name)
    return line.usd


def test_a_fixed_fleet_runs_all_the_month_with_the_requests_of_the_day(tmp_path: Path) -> None:
    found = month(least=2, traffic={**PEAK, **SIZES, "profile": "daily"})
    assert usd(found, "instances, primary") == pytest.approx(2 * PRICE * HOURS_PER_MONTH)
    assert usd(found, "volumes, primary") == pytest.approx(2 * 30 * 0.154)
    assert usd(found, "data in and out") == pytest.approx(found.requests * 5000 / 1e9 * 0.016)
    assert found.usd == pytest.approx(sum(line.usd or 0 for line in found.lines))
    assert found.missing_names == []
    assert found.day == "days with the profile daily, up to 100 requests/s"
    found = month(traffic={"profile": "daily", "peak_rps": 100, "quiet_rps": 100})
    assert found.requests == pytest.approx(100 * 3600 * HOURS_PER_MONTH)


@pytest.mark.long
def test_scaled_instances_lie_between_minimum_and_maximum_and_follow_the_traffic() -> None:
    costs = []
    for peak in (10, 60, 10_000):
        told = environment(1, 8, rps=20, traffic={"profile": "daily", "peak_rps": peak})
        usd_ = usd(
            month(least=1, most=8, rps=20, traffic=told.traffic.model_dump(exclude_unset=True)),
            "instances, primary",
        )
        assert usd_ is not None
        least, most = (
            compute_cost("prod", told).compute_usd_per_month(which) or 0
            for which in ("min_instances", "max_instances")
        )
        assert least <= usd_ <= most + 0.01
        costs.append(usd_)
    assert costs[0] < costs[1] < costs[2]
    scaled = month(least=1, most=8, rps=20, traffic={"peak_rps": 60})
    assert "on average, according to a scaling rehearsal" in scaled.lines[0].assumption
    assert scaled.day.endswith("traffic.profile isn't set")


def test_a_part_that_cannot_be_computed_says_why_and_is_missing_in_the_sum() -> None:
    found = month(traffic=PEAK, instance_type="ml.c8g.large")
    assert found.missing_names == ["instances, primary", "data in and out"]
    assert found.day.endswith("up to 100 requests/s; traffic.profile isn't set")
    assert [line.assumption for line in found.lines if line.usd is None] == [
        "no price is known",
        "set traffic.request_bytes and traffic.answer_bytes",
    ]
    unsized = environment()
    assert compute_expected_month(unsized, compute_cost("prod", unsized)) is None


def test_a_serverless_month_counts_the_time_of_answering_and_what_is_kept_warm() -> None:
    serverless = {
        "model": "ranker",
        "serverless": {"memory_mib": 2048, "max_concurrency": 5, "provisioned_concurrency": 2},
    }
    prices = {
        "as_of": "2026-11",
        "serverless_usd_per_gib_second": 0.00002,
        "provisioned_usd_per_gib_second": 0.00001,
    }
    fleet = {"primary": serverless, "other": {**serverless, "weight": 3.0}}
    found = month(variants=fleet, prices=prices, traffic={"peak_rps": 10})
    answering = found.requests / 4 * 0.1 * 2 * 0.00002
    warm = 2 * 2 * 0.00001 * HOURS_PER_MONTH * 3600
    assert usd(found, "serverless, primary") == pytest.approx(answering + warm)
    assert found.lines[0].assumption == "100 ms for each request, and 2 containers kept warm"


def test_asynchronous_requests_leave_their_bytes_in_s3_for_keep_days() -> None:
    found = month(least=1, traffic={**PEAK, **SIZES}, asynchronous={"keep_days": 10})
    each_day = found.requests / HOURS_PER_MONTH * 24
    stored = each_day * 10 * 5000 / 1e9
    assert usd(found, "requests and responses in S3") == pytest.approx(stored * 0.025)
    assert "data in and out" not in [line.name for line in found.lines]
    unsized = month(least=1, traffic=PEAK, asynchronous={"keep_days": 10})
    assert "requests and responses in S3" in unsized.missing_names


def test_the_command_shows_each_line_and_writes_it_into_json(prod: Path) -> None:
    (prod / "environments" / "prod.toml").write_text(VALID + "[asynchronous]\nkeep_days = 9\n")

    def run(*options: str) -> str:
        ran = CliRunner().invoke(command, ["prod", *options], standalone_mode=False)
        assert ran.return_value == 0
        return ran.stdout

    without = run()
    assert "expected month            not known: set peak_rps, or day, in [traffic]" in without
    assert "failures in S3 for 9 days" in without
    assert json.loads(run("--json"))["expected"] is None
    shown = run("--set", "traffic.peak_rps=10")
    assert "expected month            at least $" in shown
    assert "without requests and responses in S3: days with the profile daily" in shown
    assert "\n  instances, primary              $" in shown
    told = json.loads(run("--set", "traffic.peak_rps=10", "--json"))["expected"]
    assert told["missing"] == ["requests and responses in S3"]
    assert told["usd_per_month"] == pytest.approx(sum(line["usd"] or 0 for line in told["lines"]))
