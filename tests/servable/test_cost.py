"""`servable cost`: sums that hold for any fleet, prices that nobody made up, and the expected month."""

import json
import shutil
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as some

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.command import cost as command
from servable.cost.cost import WHICH, compute_cost, describe_difference
from servable.cost.expected import ExpectedMonth, compute_expected_month
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable import test_check_against as against
from tests.servable.test_check_against import Commit

PRICE = 0.204  # ml.c5.xlarge in prices.json
counts = some.integers(1, 200)
SIZES = {"request_bytes": 400_000, "answer_bytes": 10_000}
TRAFFIC = "[traffic]\nrequest_bytes = 400_000\nanswer_bytes = 10_000\n"
SERVERLESS = against.SERVERLESS.replace("2048", "3072").replace("= 5", "= 10")


def environment(
    least: int = 1,
    most: int | None = None,
    *,
    instance_type: str = "ml.c5.xlarge",
    rps: float | None = None,
    region: str = "us-west-2",
    **tables: object,
) -> Environment:
    variant = {
        "model": "ranker", "instance_type": instance_type, "min_instances": least, "max_instances": most,
        "scaling": None if rps is None else {"max_rps_per_instance": rps},
    }  # fmt: skip
    known = {"account": "111111111111", "region": region, "endpoint": {"name": "ranker"}}
    models = {"ranker": {"saved_model": "model"}}
    return Environment.model_validate(
        {**known, "models": models, "variants": {"primary": variant}, **tables}
    )


@pytest.mark.long
@given(counts, counts)
def test_min_never_costs_more_than_max_nor_max_more_than_an_update(one: int, other: int) -> None:
    found = compute_cost("prod", environment(min(one, other), max(one, other)))
    hours = [found.compute_usd_per_hour(which) or 0.0 for which in WHICH]
    assert hours == sorted(hours)
    a, b = (compute_cost("prod", environment(count)) for count in (one, other))
    forth, back = describe_difference(a, b), describe_difference(b, a)
    assert forth.replace("-", "+") == back.replace("-", "+")


@pytest.mark.long
@given(counts, some.integers(5, 50), some.floats(0.1, 10_000))
def test_a_month_is_730_hours_and_an_update_costs_both_fleets_or_its_batches(
    count: int, percent: int, rps: float
) -> None:
    found = compute_cost("prod", environment(count, rps=rps, rollout={"strategy": "canary"}))
    hour, most, during = (found.compute_usd_per_hour(which) or 0 for which in WHICH)
    assert found.compute_usd_per_month("min_instances") == pytest.approx(hour * HOURS_PER_MONTH)
    assert 0 < most == pytest.approx(during / 2)
    hours = 1_000_000 / rps / 3600
    once, most_, twice = (found.compute_usd_per_million(which) or 0 for which in WHICH)
    assert once == pytest.approx(hours * (found.variants[0].usd_per_instance_hour or 0))
    assert (most_, twice) == pytest.approx((once, 2 * once))
    assert found.variants[0].usd_per_million_predictions == pytest.approx(once)
    # A rolling update costs a batch and that of its rollback.
    rolling: dict[str, object] = {"strategy": "rolling", "batch_percent": percent}
    (rolled,) = compute_cost("prod", environment(count, rollout=rolling)).variants
    assert count < rolled.max_during_update <= count + 2 * -(-count * percent // 100)


def test_a_changed_objective_and_payment_by_use_stand_beside_the_money() -> None:
    now, then = (
        compute_cost("prod", environment(count, alarms={"p99_latency_ms": limit}))
        for count, limit in ((3, 80), (1, 120))
    )
    assert describe_difference(now, then).endswith("p99 objective 120 -> 80 ms")
    now = compute_cost("prod", Environment.model_validate(tomllib.loads(SERVERLESS)))
    assert "billed by use" in describe_difference(now, then)


def test_a_shadow_variant_costs_as_much_and_answers_nobody() -> None:
    alone = environment(rps=10)
    told = alone.model_dump(exclude_unset=True)
    told["variants"]["copy"] = {**told["variants"]["primary"], "shadow": True}
    costs = [compute_cost("prod", each) for each in (alone, Environment.model_validate(told))]
    one, both = (cost.compute_usd_per_million("min_instances") or 0 for cost in costs)
    assert both == pytest.approx(2 * one)


def test_a_price_that_no_source_states_is_unknown_and_never_guessed() -> None:
    found = compute_cost("prod", environment(instance_type="ml.c8g.large"))
    assert found.unpriced_names == ["ml.c8g.large"]
    assert found.compute_usd_per_hour("max_instances") is None
    mixed = VALID + "\n[variants.other]\nmodel = 'ranker'\ninstance_type = 'ml.c8g.large'\n"
    found = compute_cost("prod", Environment.model_validate(tomllib.loads(mixed)))
    assert found.missing_keys == ['prices.instance_usd_per_hour."ml.c8g.large"']
    # Data of unknown size is not counted, and its key named.
    for sizes, missing in (
        ({}, ["traffic.request_bytes", "traffic.answer_bytes"]),
        ({"request_bytes": 400_000}, ["traffic.answer_bytes"]),
        (SIZES, []),
    ):
        data = compute_cost("prod", environment(traffic=sizes)).data
        assert data.missing_keys == missing
        assert (data.usd_per_million_predictions is None) == bool(missing)


def test_a_schedule_moves_both_ends_of_the_range() -> None:
    told = environment(2, 4, rps=10).model_dump(exclude_unset=True)
    told["variants"]["primary"]["scaling"]["schedule"] = [
        {"at": "cron(0 7 * * ? *)", "at_least": 6, "at_most": 9},
        {"at": "cron(0 20 * * ? *)", "at_least": 1},
    ]
    (found,) = compute_cost("prod", Environment.model_validate(told)).variants
    assert (found.min_instances, found.max_instances, found.max_during_update) == (1, 9, 18)


def test_where_nothing_has_a_price_no_sum_is_shown_and_an_unknown_type_is_an_error(
    prod: Path,
) -> None:
    shown = said(prod, VALID.replace("ml.c5.xlarge", "ml.c8g.large"))
    assert "unknown price" in shown
    assert "$" not in shown.partition("data in and out")[0]
    arguments = ["prod", "--set", "variants.primary.instance_type=ml.c5.4xlrge"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    problem = "'ml.c5.4xlrge' is unknown and has no price; did you mean ml.c5.4xlarge?"
    assert (ran.return_value, ran.stderr) == (1, f"servable cost: {problem}\n")


@given(some.integers(1, 10**9), some.integers(1, 10**9))
def test_data_costs_its_price_by_the_gb_each_way(request: int, answer: int) -> None:
    sizes = {"request_bytes": request, "answer_bytes": answer}
    found = compute_cost("prod", environment(traffic=sizes, region="us-east-1")).data
    assert found.usd_per_million_predictions == pytest.approx((request + answer) / 1000 * 0.016)


def test_the_cost_of_data_is_said_with_sizes_price_region_and_date_or_what_is_missing(
    prod: Path,
) -> None:
    price = "$0.016 per GB (eu-west-1, 2023-12)\n"
    counted = (
        "plus at most $6.56 per million predictions, of 400,000 bytes in and 10,000 out; " + price
    )
    unset = f"traffic.request_bytes and traffic.answer_bytes are not set; the price is {price}"
    for text, line in (
        (f"{VALID}\n{TRAFFIC}", counted),
        (f"{SERVERLESS}\n{TRAFFIC}", counted),
        (VALID, f"not counted: {unset}"),
        (f"{VALID}{TRAFFIC}[asynchronous]\n", "not counted: no price is known"),
    ):
        assert f"data in and out           {line}" in said(prod, text)
    text = VALID.replace("eu-west-1", "sa-east-1") + TRAFFIC
    assert "(us-east-1, not of sa-east-1, 2026-05-08)" in said(prod, text)


def test_the_files_price_goes_before_the_catalogs(prod: Path) -> None:
    for name in ("ml.c5.xlarge", "ml.c8g.large"):
        text = VALID.replace("ml.c5.xlarge", name)
        text += f'[prices]\ninstance_usd_per_hour = {{ "{name}" = 0.5 }}\n'
        shown = json.loads(said(prod, text, "--json"))
        assert shown["usd_per_hour"]["min_instances"] == 0.5
        assert shown["unknown_prices"] == []
    prices = {"usd_per_gb_processed": 0.1}
    data = compute_cost("prod", environment(traffic=SIZES, prices=prices)).data
    assert data.usd_per_million_predictions == pytest.approx(41)


def said(prod: Path, text: str, *more: str) -> str:
    (prod / "environments" / "prod.toml").write_text(text)
    ran = CliRunner().invoke(command, ["prod", *more], standalone_mode=False)
    assert ran.return_value == 0
    return ran.stdout


def test_serverless_is_paid_by_use_and_by_what_is_kept_warm(prod: Path) -> None:
    shown = said(prod, SERVERLESS)
    assert "paid by use: $0.00006 per second of processing" in shown
    # 3 GiB for 100 ms, a million times; and all ten containers for an hour.
    assert "$6.00 per million predictions at 100 ms each" in shown
    assert "2.16/hour" in shown
    unpriced = SERVERLESS.replace("eu-west-1", "cn-north-1")
    assert "serverless of 3072 MiB, paid by use: unknown price" in said(prod, unpriced)

    warm = "provisioned_concurrency = 2, max_provisioned_concurrency = 5 }"
    warm = SERVERLESS.replace("= 10 }", f"= 10, {warm}")
    priced = "\n[prices]\nprovisioned_usd_per_gib_second = 0.00001\n"
    for text, usd in ((warm, 0.000005), (warm + priced, 0.00001)):
        hour = json.loads(said(prod, text, "--json"))["usd_per_hour"]
        assert hour["min_instances"] == pytest.approx(2 * 3 * usd * 3600)
        assert hour["max_instances"] == pytest.approx(2.16 + 5 * 3 * usd * 3600)


def test_no_example_has_an_unknown_price() -> None:
    folders = {file.parent for file in (ROOT / "examples").glob("*/*.toml")}
    unknown = {
        key
        for folder in (ROOT / "environments", *folders)
        for loaded in load(ROOT, folder)
        if isinstance(loaded, ValidFile)
        for key in compute_cost(loaded.name, loaded.environment).missing_keys
    }
    assert unknown == set()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_command_compares_with_a_revision(prod: Path, commit: Commit) -> None:
    commit(VALID)
    (prod / "environments" / "prod.toml").write_text(f"{VALID}min_instances = 2\n")
    arguments = ["prod", "--against", "HEAD", "--json"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    said = json.loads(ran.stdout)
    month = said["usd_per_month"]["min_instances"] / 2 + 4.62  # of a volume
    assert said["against"]["difference"].startswith(f"+${month:,.0f}/month at min")
    ran = CliRunner().invoke(command, arguments[:-1], standalone_mode=False)
    assert ran.stdout.endswith(f"against HEAD: {said['against']['difference']}\n")


def test_a_run_costs_its_instances_for_as_long_as_it_takes() -> None:
    batch = {
        "model": "ranker", "instance_type": "ml.c5.xlarge", "instances": 3, "late_minutes": 30,
        "input": "s3://tables/rows/", "output": "s3://tables/out/", "content_type": "text/csv",
    }  # fmt: skip
    costs = compute_cost("prod", environment(batch={"nightly": batch}))
    assert costs.batches[0].compute_usd_per_run(30) == pytest.approx(3 * PRICE / 2)
    assert costs.compute_usd_per_hour("max_instances") == pytest.approx(PRICE)
    assert costs.as_json()["batches"][0]["usd_per_late_run"] == pytest.approx(3 * PRICE / 2)
    without = compute_cost("prod", environment())
    assert describe_difference(costs, without).endswith("+$1 per hour of batch nightly")
    assert describe_difference(without, costs).endswith("-$1 per hour of batch nightly")


# --- the expected month: between minimum and maximum, with data, and each line with its assumption

SMALL = {"request_bytes": 4000, "answer_bytes": 1000}
PEAK = {"peak_rps": 100, "quiet_rps": 10}


def month(**keys: object) -> ExpectedMonth:
    told = environment(**keys)  # type: ignore[arg-type]
    found = compute_expected_month(told, compute_cost("prod", told))
    assert found is not None
    return found


def usd(found: ExpectedMonth, name: str) -> float | None:
    (line,) = (line for line in found.lines if line.name == name)
    return line.usd


def test_a_fixed_fleet_runs_all_the_month_with_the_requests_of_the_day() -> None:
    found = month(least=2, traffic={**PEAK, **SMALL, "profile": "daily"})
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
    scaling: dict[str, Any] = {"least": 1, "most": 8, "rps": 20}
    bounds = compute_cost("prod", environment(**scaling))
    least = bounds.compute_usd_per_month("min_instances") or 0
    most = bounds.compute_usd_per_month("max_instances") or 0
    low, middle, high = (
        usd(month(**scaling, traffic={"profile": "daily", "peak_rps": peak}), "instances, primary")
        or 0
        for peak in (10, 60, 10_000)
    )
    assert least <= low < middle < high <= most + 0.01
    scaled = month(**scaling, traffic={"peak_rps": 60})
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
    sizes = {"memory_mib": 2048, "max_concurrency": 5, "provisioned_concurrency": 2}
    serverless: dict[str, object] = {"model": "ranker", "serverless": sizes}
    prices = {
        "as_of": "2026-11", "serverless_usd_per_gib_second": 0.00002,
        "provisioned_usd_per_gib_second": 0.00001,
    }  # fmt: skip
    fleet = {"primary": serverless, "other": {**serverless, "weight": 3.0}}
    found = month(variants=fleet, prices=prices, traffic={"peak_rps": 10})
    answering = found.requests / 4 * 0.1 * 2 * 0.00002
    warm = 2 * 2 * 0.00001 * HOURS_PER_MONTH * 3600
    assert usd(found, "serverless, primary") == pytest.approx(answering + warm)
    assert found.lines[0].assumption == "100 ms for each request, and 2 containers kept warm"


def test_asynchronous_requests_leave_their_bytes_in_s3_for_keep_days() -> None:
    found = month(least=1, traffic={**PEAK, **SMALL}, asynchronous={"keep_days": 10})
    each_day = found.requests / HOURS_PER_MONTH * 24
    stored = each_day * 10 * 5000 / 1e9
    assert usd(found, "requests and responses in S3") == pytest.approx(stored * 0.025)
    assert "data in and out" not in [line.name for line in found.lines]
    unsized = month(least=1, traffic=PEAK, asynchronous={"keep_days": 10})
    assert "requests and responses in S3" in unsized.missing_names


def test_the_command_shows_each_line_and_writes_it_into_json(prod: Path) -> None:
    run = partial(said, prod, VALID + "[asynchronous]\nkeep_days = 9\n")
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
