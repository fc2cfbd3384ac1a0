"""`servable cost`: sums that hold for any fleet, and prices that nobody made up."""

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as some

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.command import cost as command
from servable.cost.cost import WHICH, compute_cost, describe_difference
from tests.conftest import VALID
from tests.servable.test_check_against import Commit

ROOT = Path(__file__).resolve().parents[2]
PRICE = 0.204  # ml.c5.xlarge in prices.json
counts = some.integers(1, 200)


def environment(
    least: int = 1,
    most: int | None = None,
    *,
    instance_type: str = "ml.c5.xlarge",
    rollout: dict[str, object] | None = None,
    p99: float | None = None,
    rps: float | None = None,
    traffic: Mapping[str, object] | None = None,
    region: str = "us-west-2",
    **tables: object,
) -> Environment:
    variant: dict[str, object] = {
        "model": "ranker",
        "instance_type": instance_type,
        "min_instances": least,
        "max_instances": most,
    }
    if rps is not None:
        variant["scaling"] = {"max_rps_per_instance": rps}
    return Environment.model_validate(
        {
            "account": "111111111111",
            "region": region,
            "endpoint": {"name": "ranker"},
            "models": {"ranker": {"saved_model": "model"}},
            "variants": {"primary": variant},
            "alarms": {} if p99 is None else {"p99_latency_ms": p99},
            "rollout": rollout,
            "traffic": traffic or {},
            **tables,
        }
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
    assert most > 0
    assert during == pytest.approx(2 * most)
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
    now, then = (compute_cost("prod", environment(n, p99=p)) for n, p in ((3, 80), (1, 120)))
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
        assert (data.missing_keys, data.usd_per_million_predictions is None) == (
            missing, bool(missing))  # fmt: skip


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


SIZES = {"request_bytes": 400_000, "answer_bytes": 10_000}


@given(some.integers(1, 10**9), some.integers(1, 10**9))
def test_data_costs_its_price_by_the_gb_each_way(request: int, answer: int) -> None:
    sizes = {"request_bytes": request, "answer_bytes": answer}
    found = compute_cost("prod", environment(traffic=sizes, region="us-east-1")).data
    assert found.usd_per_million_predictions == pytest.approx((request + answer) / 1000 * 0.016)


def test_the_cost_of_data_is_said_with_sizes_price_region_and_date_or_what_is_missing(
    prod: Path,
) -> None:
    for text in (VALID, SERVERLESS):
        shown = said(prod, f"{text}\n[traffic]\n{TRAFFIC}")
        assert (
            "data in and out           plus at most $6.56 per million predictions, of "
            "400,000 bytes in and 10,000 out; $0.016 per GB (eu-west-1, 2023-12)\n" in shown
        )
    text = VALID.replace("eu-west-1", "sa-east-1") + f"[traffic]\n{TRAFFIC}"
    assert "(us-east-1, not of sa-east-1, 2026-05-08)" in said(prod, text)
    shown = said(prod, VALID)
    assert (
        "data in and out           not counted: traffic.request_bytes and traffic.answer_bytes are "
        "not set; the price is $0.016 per GB (eu-west-1, 2023-12)\n" in shown
    )
    shown = said(prod, f"{VALID}[traffic]\n{TRAFFIC}[asynchronous]\n")
    assert "data in and out           not counted: no price is known" in shown


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


TRAFFIC = "request_bytes = 400_000\nanswer_bytes = 10_000\n"
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 3072, max_concurrency = 10 }"
)


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
    folders = [
        ROOT / "environments",
        *{file.parent for file in (ROOT / "examples").glob("*/*.toml")},
    ]
    unknown = {
        key
        for folder in folders
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
