"""`servable cost`: sums that hold for any fleet, and prices that nobody made up."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as some

from cli.cost import cost as command
from infra.parameters.environment import Environment
from operations.cost import HOURS_PER_MONTH, cost, difference
from tests.cli.test_check_against import git
from tests.conftest import VALID

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
            "region": "us-west-2",
            "endpoint": {"name": "ranker"},
            "models": {"ranker": {"saved_model": "model"}},
            "variants": {"primary": variant},
            "alarms": {} if p99 is None else {"p99_latency_ms": p99},
            "rollout": rollout,
        }
    )


@given(counts, counts)
def test_min_never_costs_more_than_max_nor_max_more_than_an_update(one: int, other: int) -> None:
    found = cost("prod", environment(min(one, other), max(one, other)))
    hours = [found.usd_per_hour(w) for w in ("min_instances", "max_instances", "max_during_update")]
    assert hours == sorted(hours)


@given(counts)
def test_a_month_is_730_hours_of_every_instance(count: int) -> None:
    found = cost("prod", environment(count))
    hour = found.usd_per_hour("min_instances")
    assert found.usd_per_month("min_instances") == pytest.approx(hour * HOURS_PER_MONTH)


@given(counts)
def test_a_blue_green_update_costs_both_fleets(count: int) -> None:
    found = cost("prod", environment(count, rollout={"strategy": "canary"}))
    most = found.usd_per_hour("max_instances")
    assert found.usd_per_hour("max_during_update") == pytest.approx(2 * most)


@given(counts, some.integers(5, 50))
def test_a_rolling_update_costs_one_batch_more(count: int, percent: int) -> None:
    rollout: dict[str, object] = {"strategy": "rolling", "batch_percent": percent}
    (found,) = cost("prod", environment(count, rollout=rollout)).variants
    assert count < found.max_during_update <= count + -(-count * percent // 100)


@given(some.floats(0.1, 10_000))
def test_a_million_predictions_cost_what_an_instance_takes_to_make_them(rps: float) -> None:
    (found,) = cost("prod", environment(rps=rps)).variants
    assert found.usd_per_million is not None
    hours = 1_000_000 / rps / 3600
    assert found.usd_per_million == pytest.approx(hours * (found.usd_per_instance_hour or 0))


@given(counts, counts)
def test_a_difference_and_its_way_back_are_of_one_size(one: int, other: int) -> None:
    a, b = (cost("prod", environment(count)) for count in (one, other))
    assert difference(a, b).replace("-", "+") == difference(b, a).replace("-", "+")


def test_a_changed_objective_stands_beside_the_money() -> None:
    now, then = (cost("prod", environment(n, p99=p)) for n, p in ((3, 80), (1, 120)))
    assert difference(now, then).endswith("p99 objective 120 -> 80 ms")


def test_a_price_that_no_source_states_is_unknown_and_never_guessed() -> None:
    found = cost("prod", environment(instance_type="ml.c8g.large"))
    assert (found.unknown, found.usd_per_hour("max_instances")) == (["ml.c8g.large"], 0)


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
