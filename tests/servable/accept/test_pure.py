"""Parts of `servable accept` without AWS: budget, choice of types, report without secrets, comparison."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.parameters.loading import load
from servable.accept.announcement import announce, waves
from servable.accept.command import DEFAULT_DOLLARS, DEFAULT_MINUTES, _project, chosen_steps
from servable.accept.comparison import compared
from servable.accept.execution import Execution
from servable.accept.project import KINDS, InstanceChoice, choose, environment_name, write_project
from servable.accept.record import AcceptReport, StepRecord, redacted
from servable.accept.run import DELETING_MINUTES, AcceptRun, LimitReachedError, Meter
from servable.accept.steps import STEPS
from servable.acceptance_report import MeasuredMinutes, measured_minutes
from tests.conftest import valid

REGION = "us-east-1"
ENDPOINT, TRANSFORM = "{} for endpoint usage", "{} for transform job usage"
Quotas = st.dictionaries(
    st.sampled_from(
        [ENDPOINT.format(f"ml.{name}") for name in ("t2.medium", "c5.large", "m5.large")]
    ),
    st.integers(0, 8).map(float),
)


# --- what the quotas allow


@given(Quotas)
def test_what_is_deployed_at_once_is_within_the_quota(quotas: dict[str, float]) -> None:
    choice = choose(REGION, quotas, KINDS)
    allowed = [kind for kind in KINDS if kind not in choice.left_out and kind != "batch"]
    for wave in waves(allowed, choice):
        count = 4 if choice.scaled and "main" in wave else 0
        count += sum(KINDS[k].endpoint_instances for k in wave if not (count and k == "main"))
        assert count <= quotas.get(ENDPOINT.format(choice.instance_type), 0)


def test_a_new_account_runs_what_two_small_instances_allow() -> None:
    choice = choose(REGION, {ENDPOINT.format("ml.t2.medium"): 2.0}, KINDS)
    assert choice.instance_type == "ml.t2.medium"
    assert set(choice.left_out) == {"asynchronous", "components", "batch"}


def test_quotas_of_zero_leave_serverless() -> None:
    choice = choose(REGION, {}, KINDS)
    assert set(KINDS) - set(choice.left_out) == {"serverless"}


def test_without_quotas_everything_runs() -> None:
    assert choose(REGION, None, KINDS).left_out == {}


# --- budget


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@settings(max_examples=20)
@given(
    dollars=st.floats(0.1, 20),
    usd=st.lists(st.floats(0.01, 3), min_size=1, max_size=5),
    minutes=st.floats(20, 300),
)
def test_a_run_ends_while_its_deletion_can_still_be_paid(
    dollars: float, usd: list[float], minutes: float
) -> None:
    clock = Clock()
    meter = Meter(dollars=dollars, minutes=minutes, clock=clock)
    for number, each in enumerate(usd):
        meter.start(str(number), each)
    while meter.seconds_left > 0:
        clock.seconds += 10
    with pytest.raises(LimitReachedError):
        meter.check()
    clock.seconds += DELETING_MINUTES * 60 - 10
    late = clock.seconds <= minutes * 60 and meter.usd <= dollars
    short = sum(usd) * DELETING_MINUTES / 60 > dollars  # of such a budget a run is not begun
    assert late or short


def test_what_has_been_deleted_costs_no_more() -> None:
    clock = Clock()
    meter = Meter(dollars=2, minutes=90, clock=clock)
    meter.start("main", 1.0)
    clock.seconds = 1800
    meter.stop("main")
    clock.seconds = 3600
    assert meter.usd == pytest.approx(0.5)


# --- the announcement


@pytest.fixture(scope="module")
def choice() -> InstanceChoice:
    return choose(REGION, None, KINDS)


@pytest.fixture(scope="module")
def environments(
    choice: InstanceChoice, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("project") / "new"
    write_project(folder, account="1" * 12, region=REGION, run="r", choice=choice, names=KINDS)
    for name in ("mult", "words", "cols", "text", "vision", "slow"):
        (folder / "conformance" / name / "1").mkdir(parents=True)
    loaded = {one.name: one for one in load(folder, folder / "environments")}
    return {
        kind: valid(loaded[environment_name(kind)]).environment for kind in KINDS if kind != "batch"
    }


def announced(choice: InstanceChoice, environments: dict[str, Any], minutes: float) -> Any:
    return announce(
        account="1" * 12, caller="me", region=REGION, aws="AWS", steps=STEPS, choice=choice,
        environments=environments, minutes=minutes, bootstrapped=True,
    )  # fmt: skip


def test_the_whole_run_fits_its_default_budget(
    choice: InstanceChoice, environments: dict[str, Any]
) -> None:
    assert announced(choice, environments, DEFAULT_MINUTES).usd_at_most <= DEFAULT_DOLLARS


def test_a_longer_deadline_never_costs_less(
    choice: InstanceChoice, environments: dict[str, Any]
) -> None:
    costs = [announced(choice, environments, minutes).usd_at_most for minutes in (30, 90, 150, 600)]
    assert costs == sorted(costs)


def test_every_type_has_a_price(choice: InstanceChoice, environments: dict[str, Any]) -> None:
    assert announced(choice, environments, 90).without_price == ()


# --- the report


@settings(max_examples=30)
@given(st.text(alphabet="abc -:/.\n", max_size=20), st.from_regex(r"[0-9]{12}", fullmatch=True))
def test_no_account_id_is_in_a_report(text: str, account: str) -> None:
    value = {"a": [f"{text}{account}{text}"], f"arn:aws:iam::{account}:role/x": account}
    assert account not in json.dumps(redacted(value))


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "arn:aws:sts::111111111111:assumed-role/Admin/jane.doe",
        "https://b.s3.amazonaws.com/k?X-Amz-Signature=0123456789abcdef",
        "jane.doe@example.com",
        "wJalrXUtnFEMI",
    ],
)
def test_no_secret_is_in_a_report(secret: str, tmp_path: Path) -> None:
    step = StepRecord(name="a", proves="b", outcome="holds", facts={"said": f"x {secret} y"})
    report = AcceptReport(servable="1", aws="AWS", region="r", began="2026", instance_type=None)
    report.steps.append(step)
    report.write(tmp_path / "report.json", ("wJalrXUtnFEMI",))
    text = (tmp_path / "report.json").read_text()
    assert secret not in text
    assert "jane.doe" not in text


@pytest.mark.parametrize(
    ("outcomes", "left", "verdict"),
    [
        (["holds", "holds"], [], "holds"),
        (["holds", "cannot be told"], [], "cannot be told"),
        (["cannot be told", "does not hold"], [], "does not hold"),
        (["holds"], ["bucket x"], "does not hold"),
        ([], [], "cannot be told"),
    ],
)
def test_the_verdict_is_that_of_the_worst_step(
    outcomes: list[Any], left: list[str], verdict: str
) -> None:
    steps = [StepRecord(name="a", proves="", outcome=outcome) for outcome in outcomes]
    report = AcceptReport(servable="1", aws="AWS", region="r", began="2026", instance_type=None)
    report.steps, report.left = steps, left
    assert report.verdict == verdict


# --- two reports


def a_report(**facts: Any) -> dict[str, Any]:
    return {"steps": [{"name": "deploy", "outcome": "holds", "facts": facts}]}


FACTS = st.dictionaries(
    st.sampled_from(["a", "b.c", "took_minutes"]), st.integers(0, 5) | st.text(max_size=3)
)


@given(FACTS)
def test_a_report_does_not_differ_from_itself(facts: dict[str, Any]) -> None:
    assert list(compared(a_report(**facts), a_report(**facts))) == []


@given(FACTS, FACTS)
def test_a_comparison_is_the_same_from_both_sides(first: Any, second: Any) -> None:
    there = {one.fact for one in compared(a_report(**first), a_report(**second))}
    back = {one.fact for one in compared(a_report(**second), a_report(**first))}
    assert there == back


@pytest.mark.parametrize(
    ("other", "differs"), [(4.0, False), (4.1, True), (1.0, False), (0.9, True)]
)
def test_a_duration_differs_from_a_factor_of_two_on(other: float, differs: bool) -> None:
    found = list(compared(a_report(start_minutes=2.0), a_report(start_minutes=other)))
    assert bool(found) is differs


def test_each_fact_below_another_is_named_by_itself() -> None:
    first, second = (
        a_report(alarm={"Period": 60, "Statistic": "Average"}),
        a_report(alarm={"Period": 10}),
    )
    assert [one.fact for one in compared(first, second)] == ["alarm.Period", "alarm.Statistic"]


# --- a report's minutes, for plan and rehearse


def measured(tmp_path: Path, aws: str = "AWS") -> MeasuredMinutes:
    report = AcceptReport(
        servable="1", aws=aws, region=REGION, began="2026-11-28T10", instance_type="ml.c5.large"
    )
    facts = {
        "deploy": {"main.SageMaker::Endpoint_minutes": 5.2},
        "scaling": {"decided_minutes": 4.5, "start_minutes": 3.25},
    }
    report.steps += [
        StepRecord(name=name, proves="", outcome="holds", facts=seen)
        for name, seen in facts.items()
    ]
    report.write(tmp_path / "report.json")
    return measured_minutes(tmp_path / "report.json")


def test_a_start_lasts_from_the_decision_to_the_instance(tmp_path: Path) -> None:
    assert measured(tmp_path).start_seconds == 195


def test_the_metrics_delay_is_what_is_beyond_the_alarms_three_minutes(tmp_path: Path) -> None:
    assert measured(tmp_path).metric_delay_seconds == 90


def test_a_plan_says_where_and_when_minutes_were_measured(tmp_path: Path) -> None:
    assert measured(tmp_path).line() == (
        "measured in this account (ml.c5.large, us-east-1, 2026-11-28): an endpoint's creation 5.2 min, "
        "one more instance 3.25 min"
    )


def test_minutes_of_the_local_aws_are_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="whose minutes are not AWS's"):
        measured(tmp_path, aws="local AWS")


def test_another_file_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(click.UsageError, match="no report of `servable accept`"):
        measured_minutes(tmp_path / "other.json")


def test_the_ranker_of_a_run_is_the_examples_one() -> None:
    """A wheel holds no examples, so that it is there twice."""
    root = Path(__file__).parents[3]
    own = root / "servable" / "accept" / "ranker"
    files = [path for path in own.rglob("*") if path.is_file()]
    example = root / "examples" / "ranker"
    assert files
    assert all(
        path.read_bytes() == (example / path.relative_to(own)).read_bytes() for path in files
    )


def test_a_limit_that_is_reached_within_a_step_ends_the_run(tmp_path: Path) -> None:
    def reach(run: AcceptRun) -> None:
        raise LimitReachedError("the limit is reached")

    step = replace(STEPS[0], run=reach)
    run = AcceptRun(
        account=cast(
            Any,
            SimpleNamespace(environ={}, seconds_per_minute=60, now=lambda: datetime.now(UTC)),
        ),
        folder=tmp_path,
        choice=choose(REGION, None, KINDS),
        report=AcceptReport(
            servable="1", aws="AWS", region=REGION, began="2026-11-28T10", instance_type=None
        ),
        meter=Meter(dollars=2, minutes=90, clock=lambda: 0.0),
        run_id="",
        usd_per_hour={},
    )
    execution = Execution(run, [step], cast(Any, None), tmp_path / "report.json")
    with pytest.raises(LimitReachedError):
        execution._step(step)


def test_steps_of_the_account_alone_have_a_project_and_deploy_nothing(tmp_path: Path) -> None:
    account = cast(Any, SimpleNamespace(number="1" * 12, region=REGION))
    deployed = _project(account, tmp_path / "new", "r", choose(REGION, None, []), [])
    written = [file.name for file in (tmp_path / "new" / "environments").glob("servable-*.toml")]
    assert (deployed, written) == ({}, ["servable-accept-serverless.toml"])


@pytest.mark.parametrize("bootstrapped", [True, False])
def test_a_step_that_deploys_brings_the_bootstrap_that_is_missing(bootstrapped: bool) -> None:
    steps = [step.name for step in chosen_steps(["deploy,load"], bootstrapped=bootstrapped)]
    assert steps == ["bootstrap"] * (not bootstrapped) + ["deploy", "load"]
