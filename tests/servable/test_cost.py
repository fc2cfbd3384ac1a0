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
from tests.servable.test_check_against import git

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


@given(counts, counts)
def test_min_never_costs_more_than_max_nor_max_more_than_an_update(one: int, other: int) -> None:
    found = compute_cost("prod", environment(min(one, other), max(one, other)))
    hours = [found.compute_usd_per_hour(which) or 0.0 for which in WHICH]
    assert hours == sorted(hours)
    a, b = (compute_cost("prod", environment(count)) for count in (one, other))
    assert describe_difference(a, b).replace("-", "+") == describe_difference(b, a).replace(
        "-", "+"
    )


@given(counts)
def test_a_month_is_730_hours_and_a_blue_green_update_costs_both_fleets(count: int) -> None:
    found = compute_cost("prod", environment(count))
    hour = found.compute_usd_per_hour("min_instances")
    assert hour is not None
    assert found.compute_usd_per_month("min_instances") == pytest.approx(hour * HOURS_PER_MONTH)

    found = compute_cost("prod", environment(count, rollout={"strategy": "canary"}))
    most = found.compute_usd_per_hour("max_instances")
    assert most is not None
    assert found.compute_usd_per_hour("max_during_update") == pytest.approx(2 * most)


@given(counts, some.integers(5, 50))
def test_a_rolling_update_costs_a_batch_and_that_of_its_rollback(count: int, percent: int) -> None:
    rollout: dict[str, object] = {"strategy": "rolling", "batch_percent": percent}
    (found,) = compute_cost("prod", environment(count, rollout=rollout)).variants
    assert count < found.max_during_update <= count + 2 * -(-count * percent // 100)


@given(some.floats(0.1, 10_000))
def test_a_million_predictions_cost_what_an_instance_takes_to_make_them(rps: float) -> None:
    (found,) = compute_cost("prod", environment(rps=rps)).variants
    assert found.usd_per_million_predictions is not None
    hours = 1_000_000 / rps / 3600
    assert found.usd_per_million_predictions == pytest.approx(
        hours * (found.usd_per_instance_hour or 0)
    )


def test_a_changed_objective_and_payment_by_use_stand_beside_the_money() -> None:
    now, then = (compute_cost("prod", environment(n, p99=p)) for n, p in ((3, 80), (1, 120)))
    assert describe_difference(now, then).endswith("p99 objective 120 -> 80 ms")
    now = Environment.model_validate(tomllib.loads(SERVERLESS))
    assert "billed by use" in describe_difference(
        compute_cost("prod", now), compute_cost("prod", environment())
    )


def test_a_price_that_no_source_states_is_unknown_and_never_guessed() -> None:
    found = compute_cost("prod", environment(instance_type="ml.c8g.large"))
    assert (found.unpriced_names, found.compute_usd_per_hour("max_instances")) == (
        ["ml.c8g.large"],
        None,
    )

    mixed = VALID + "\n[variants.other]\nmodel = 'ranker'\ninstance_type = 'ml.c8g.large'\n"
    found = compute_cost("prod", Environment.model_validate(tomllib.loads(mixed)))
    assert found.missing_keys == ['prices.instance_usd_per_hour."ml.c8g.large"']


def test_a_schedule_moves_both_ends_of_the_range() -> None:
    told = environment(2, 4, rps=10).model_dump(exclude_unset=True)
    told["variants"]["primary"]["scaling"]["schedule"] = [
        {"at": "cron(0 7 * * ? *)", "at_least": 6, "at_most": 9},
        {"at": "cron(0 20 * * ? *)", "at_least": 1},
    ]
    (found,) = compute_cost("prod", Environment.model_validate(told)).variants
    assert (found.min_instances, found.max_instances, found.max_during_update) == (1, 9, 18)


def test_where_nothing_has_a_price_no_sum_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = said(project, monkeypatch, VALID.replace("ml.c5.xlarge", "ml.c8g.large"))
    assert "unknown price" in shown
    assert "$" not in shown.partition("data in and out")[0]


def test_a_type_that_there_is_not_and_has_no_price_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    arguments = ["prod", "--set", "variants.primary.instance_type=ml.c5.4xlrge"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    problem = "'ml.c5.4xlrge' is unknown and has no price; did you mean ml.c5.4xlarge?"
    assert (ran.return_value, ran.stderr) == (1, f"servable cost: {problem}\n")


@given(counts, some.floats(1, 1000))
def test_predictions_cost_twice_while_both_fleets_run(count: int, rps: float) -> None:
    found = compute_cost("prod", environment(count, rps=rps, rollout={"strategy": "canary"}))
    often = [found.compute_usd_per_million(which) for which in WHICH]
    assert often == pytest.approx([often[0], often[0], 2 * (often[0] or 0)])


SIZES = {"request_bytes": 400_000, "answer_bytes": 10_000}


@given(some.integers(1, 10**9), some.integers(1, 10**9))
def test_data_costs_its_price_by_the_gb_each_way(request: int, answer: int) -> None:
    sizes = {"request_bytes": request, "answer_bytes": answer}
    found = compute_cost("prod", environment(traffic=sizes, region="us-east-1")).data
    assert found.usd_per_million_predictions == pytest.approx((request + answer) / 1000 * 0.016)


@pytest.mark.parametrize(
    ("given_", "missing"),
    [
        ({}, ["traffic.request_bytes", "traffic.answer_bytes"]),
        ({"request_bytes": 400_000}, ["traffic.answer_bytes"]),
        (SIZES, []),
    ],
)
def test_data_of_unknown_size_is_not_counted_and_its_key_named(
    given_: dict[str, object], missing: list[str]
) -> None:
    found = compute_cost("prod", environment(traffic=given_)).data
    assert (found.missing_keys, found.usd_per_million_predictions is None) == (
        missing,
        bool(missing),
    )


def test_the_cost_of_data_is_said_with_sizes_price_region_and_date_or_what_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ["instances", "serverless"]:
        text = VALID if kind == "instances" else SERVERLESS
        shown = said(project, monkeypatch, f"{text}\n[traffic]\n{TRAFFIC}")
        assert (
            "data in and out           plus at most $6.56 per million predictions, of "
            "400,000 bytes in and 10,000 out; $0.016 per GB (eu-west-1, 2023-12)\n" in shown
        )
    text = VALID.replace("eu-west-1", "sa-east-1") + f"[traffic]\n{TRAFFIC}"
    assert "(us-east-1, not of sa-east-1, 2026-05-08)" in said(project, monkeypatch, text)
    shown = said(project, monkeypatch, VALID)
    assert (
        "data in and out           not counted: traffic.request_bytes and traffic.answer_bytes are "
        "not set; the price is $0.016 per GB (eu-west-1, 2023-12)\n" in shown
    )
    shown = said(project, monkeypatch, f"{VALID}[traffic]\n{TRAFFIC}[asynchronous]\n")
    assert "data in and out           not counted: no price is known" in shown


def test_the_files_price_goes_before_the_catalogs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(
        said(project, monkeypatch, PRICED.replace("ml.c8g.large", "ml.c5.xlarge"), "--json")
    )
    assert shown["usd_per_hour"]["min_instances"] == 0.5
    assert json.loads(said(project, monkeypatch, PRICED, "--json"))["unknown_prices"] == []
    found = compute_cost(
        "prod", environment(traffic=SIZES, prices={"usd_per_gb_processed": 0.1})
    ).data
    assert found.usd_per_million_predictions == pytest.approx(41)


TRAFFIC = "request_bytes = 400_000\nanswer_bytes = 10_000\n"
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 3072, max_concurrency = 10 }"
)


def said(project: Path, monkeypatch: pytest.MonkeyPatch, text: str, *more: str) -> str:
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(text)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(command, ["prod", *more], standalone_mode=False)
    assert ran.return_value == 0
    return ran.stdout


def test_serverless_is_paid_by_use_and_by_what_is_kept_warm(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = said(project, monkeypatch, SERVERLESS)
    assert "paid by use: $0.00006 per second of processing" in shown
    # 3 GiB for 100 ms, a million times; and all ten containers for an hour.
    assert "$6.00 per million predictions at 100 ms each" in shown
    assert "2.16/hour" in shown

    warm = SERVERLESS.replace("= 10 }", "= 10, provisioned_concurrency = 2 }")
    shown = json.loads(said(project, monkeypatch, warm, "--json"))
    assert shown["usd_per_hour"]["min_instances"] == pytest.approx(2 * 3 * 0.000005 * 3600)

    warm = SERVERLESS.replace("= 10 }", "= 10, provisioned_concurrency = 2 }")
    warm += "\n[prices]\nprovisioned_usd_per_gib_second = 0.00001\n"
    shown = json.loads(said(project, monkeypatch, warm, "--json"))
    assert shown["usd_per_hour"]["min_instances"] == pytest.approx(2 * 3 * 0.00001 * 3600)


PRICED = (
    VALID.replace("ml.c5.xlarge", "ml.c8g.large")
    + """
[prices]
instance_usd_per_hour = { "ml.c8g.large" = 0.5 }
"""
)


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
def test_the_command_compares_with_a_revision(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "environments" / "prod.toml"
    (project / "cdk.json").write_text("{}")
    file.write_text(VALID)
    git(project, "init", "--quiet")
    git(project, "add", "environments", "cdk.json")
    git(project, "commit", "--quiet", "--message", "deployed")
    file.write_text(f"{VALID}min_instances = 2\n")
    monkeypatch.chdir(project)
    arguments = ["prod", "--against", "HEAD", "--json"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    said = json.loads(ran.stdout)
    month = said["usd_per_month"]["min_instances"] / 2
    assert said["against"]["difference"].startswith(f"+${month:,.0f}/month at min")


def test_a_run_costs_its_instances_for_as_long_as_it_takes() -> None:
    batch = {
        "model": "ranker",
        "instance_type": "ml.c5.xlarge",
        "instances": 3,
        "input": "s3://tables/rows/",
        "output": "s3://tables/scores/",
        "content_type": "text/csv",
        "late_minutes": 30,
    }
    costs = compute_cost("prod", environment(batch={"nightly": batch}))
    assert costs.batches[0].compute_usd_per_run(30) == pytest.approx(3 * PRICE / 2)
    assert costs.compute_usd_per_hour("max_instances") == pytest.approx(PRICE)
    assert costs.as_json()["batches"][0]["usd_per_late_run"] == pytest.approx(3 * PRICE / 2)
