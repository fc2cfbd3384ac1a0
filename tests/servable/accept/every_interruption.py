"""`servable accept` whole with real containers, interrupted in each step, and in accounts that refuse.

`make accept-local` runs it, in half an hour; it writes servable/accept/local_aws.json, which
`servable accept --compare` compares reports with.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.policy.acceptance_policy import TAG
from servable.accept.comparison import LOCAL_AWS
from servable.accept.steps import STEPS
from servable_local.aws.inventory import inventory
from servable_local.aws.lifecycle import down, up
from servable_local.aws.refusals import AccessError
from tests.checkouts import PATH, run_in
from tests.servable.accept.acceptance import (
    SECONDS_PER_MINUTE,
    Acceptance,
    RecordedCall,
    ThrottlingError,
    acceptance,
)
from tests.servable.accept.role_questions import questions, statements, write
from tests.servable.accept.whole_run import SHARED
from tests.servable_local.aws.recorded_calls import allowed

NAMES = [step.name for step in STEPS]


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acceptance]:
    """Containers are stand-ins."""
    with acceptance(tmp_path_factory.mktemp("accept") / "project") as made:
        yield made
        made.fault = lambda call: None


def left(account: Acceptance, before: list[tuple[str, str]]) -> set[tuple[str, str]]:
    return {*account.inventory()} - {*before, SHARED}


def test_every_step_of_a_whole_run_holds(tmp_path: Path) -> None:
    """In a local AWS of its own process, with TensorFlow in its containers, not bootstrapped."""
    (tmp_path / "environments").mkdir()
    aws = up(folder=tmp_path / ".servable", seconds_per_minute=SECONDS_PER_MINUTE)
    try:
        before = inventory(aws)
        command = [sys.executable, "-m", "servable", "accept", "--local", "--yes", "--minutes=900"]
        environment = {**os.environ, "PATH": PATH}
        ran = run_in(
            tmp_path, *command, "--dollars=20", environment=environment, timeout_seconds=800
        )
        remaining = {*inventory(aws)} - {*before, SHARED}
    finally:
        down(folder=tmp_path / ".servable")
    (file,) = tmp_path.glob("accept-*.json")
    report = json.loads(file.read_text(encoding="utf-8"))
    outcomes = {step["name"]: step["outcome"] for step in report["steps"]}
    others = {name for name, outcome in outcomes.items() if outcome != "holds"}
    assert (remaining, others) == (set(), set()), ran.stderr
    LOCAL_AWS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def test_a_whole_run_with_stand_ins_reaches_each_step(account: Acceptance) -> None:
    """Its calls are recorded, for the last test; the models of the conformance are not in stand-ins."""
    before = account.inventory()
    ran = account.accept("--minutes=900", "--dollars=20", timeout_seconds=1500)
    assert left(account, before) == set(), ran.stderr
    outcomes = {step["name"]: step["outcome"] for step in account.reports()[-1]["steps"]}
    others = {name for name, outcome in outcomes.items() if outcome != "holds"}
    assert others <= {"conformance"}, ran.stderr


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_step_leaves_nothing_and_a_report(name: str, account: Acceptance) -> None:
    before = account.inventory()
    environment = next(step.environment for step in STEPS if step.name == name)
    began: list[int] = []

    def in_the_step(account: Acceptance) -> bool:
        """A little after the environment's stack is there, or the account was asked."""
        stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
        begun = not environment or any(
            one["StackStatus"] == "CREATE_COMPLETE"
            and one["StackName"].startswith("servable-accept-")
            and one["StackName"].endswith("-endpoint")
            for one in stacks
        )
        if begun and len(account.calls) > 3:
            began.append(1)
        return len(began) > 40

    ran = account.interrupted(in_the_step, "--only", name, "--dollars=9", "--minutes=600")
    assert left(account, before) == set(), ran.stderr
    assert ran.returncode == 130
    assert [step["name"] for step in account.reports()[-1]["steps"]][-1] == "destroy"


def test_a_budget_that_cannot_hold_begins_nothing(account: Acceptance) -> None:
    before = account.inventory()
    ran = account.accept("--only=deploy", "--dollars=0.01")
    assert (ran.returncode, account.inventory()) == (2, before)
    assert "give --dollars" in ran.stderr


def test_a_deadline_that_is_reached_deletes_everything(account: Acceptance) -> None:
    before = account.inventory()
    ran = account.accept("--only=deploy,update,answers-500", "--minutes=19")
    assert left(account, before) == set(), ran.stderr
    report = account.reports()[-1]
    assert (ran.returncode, report["verdict"]) == (3, "cannot be told")
    assert "the limit is reached" in report["ended"]


def test_a_name_that_is_taken_begins_nothing(account: Acceptance) -> None:
    topic = {"T": {"Type": "AWS::SNS::Topic"}}
    cloudformation = account.aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="servable-accept-main-endpoint", TemplateBody=json.dumps({"Resources": topic})
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="servable-accept-main-endpoint", WaiterConfig={"Delay": 1}
    )
    before = account.inventory()
    ran = account.accept("--only=deploy")
    cleaned = account.accept("--clean")
    there = account.inventory()
    cloudformation.delete_stack(StackName="servable-accept-main-endpoint")
    assert (ran.returncode, cleaned.returncode, there) == (2, 0, before)
    assert "servable-accept-main-endpoint" in ran.stderr


def test_quotas_of_zero_leave_out_what_needs_instances_by_name(account: Acceptance) -> None:
    account.quotas = {"ml.c5.large for endpoint usage": 0.0}
    before = account.inventory()
    ran = account.accept("--only=deploy,serverless")
    account.quotas = {}
    assert left(account, before) == set(), ran.stderr
    steps = {step["name"]: step for step in account.reports()[-1]["steps"]}
    assert (steps["serverless"]["outcome"], ran.returncode) == ("holds", 3)
    assert "left out: the quota" in steps["deploy"]["reason"]


def test_quotas_for_one_after_the_other_are_enough(account: Acceptance) -> None:
    account.quotas = {"ml.c5.large for endpoint usage": 2.0}
    before = account.inventory()
    ran = account.accept("--only=deploy,variants,update-at-zero", "--minutes=600", "--dollars=9")
    account.quotas = {}
    assert left(account, before) == set(), ran.stderr
    outcomes = {step["name"]: step["outcome"] for step in account.reports()[-1]["steps"]}
    assert set(outcomes.values()) == {"holds"}, ran.stderr


def test_a_throttling_api_is_asked_again(account: Acceptance) -> None:
    before = account.inventory()
    count = 0

    def every_third(call: RecordedCall) -> AccessError | None:
        nonlocal count
        count += 1
        return ThrottlingError() if count % 3 == 0 and call.caller == "user" else None

    account.fault = every_third
    ran = account.accept("--only=deploy,client", "--minutes=600")
    account.fault = lambda call: None
    assert left(account, before) == set(), ran.stderr
    outcomes: dict[str, Any] = {
        step["name"]: step["outcome"] for step in account.reports()[-1]["steps"]
    }
    assert outcomes["destroy"] == "holds", ran.stderr


def test_what_a_killed_job_leaves_is_deleted_with_what_no_stack_has(account: Acceptance) -> None:
    before, endpoint = account.inventory(), "servable-accept-stray"
    logs, sagemaker = account.aws.client("logs"), account.aws.client("sagemaker")
    account.interrupted(transforming, "--only=batch", number=signal.SIGKILL)
    described = sagemaker.describe_endpoint(EndpointName="servable-accept-serverless")
    sagemaker.create_endpoint(
        EndpointName=endpoint,
        EndpointConfigName=described["EndpointConfigName"],
        Tags=[{"Key": TAG, "Value": "killed"}],
    )
    for stem in (
        "sagemaker/Endpoints",
        "sagemaker/InferenceComponents",
        "lambda",
        "vendedlogs/states",
    ):
        logs.create_log_group(logGroupName=f"/aws/{stem}/{endpoint}")  # as its service would, late
    ran = account.accept("--clean")
    assert (left(account, before), ran.returncode) == (set(), 0), ran.stderr


def updating(account: Acceptance) -> bool:
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    return any(one["StackStatus"] == "UPDATE_IN_PROGRESS" for one in stacks)


def transforming(account: Acceptance) -> bool:
    jobs = account.aws.client("sagemaker").list_transform_jobs(StatusEquals="InProgress")
    return bool(jobs["TransformJobSummaries"])


@pytest.mark.parametrize(
    ("step", "when", "ended_by"),
    [("update", updating, "CancelUpdateStack"), ("batch", transforming, "StopTransformJob")],
)
def test_what_is_under_way_is_ended_before_it_is_deleted(
    account: Acceptance, step: str, when: Callable[[Acceptance], bool], ended_by: str
) -> None:
    before, began = account.inventory(), len(account.calls)
    ran = account.interrupted(when, f"--only={step}", "--minutes=600")
    assert (left(account, before), ran.returncode) == (set(), 130), ran.stderr
    assert ended_by in [one.operation for one in account.calls[began:] if one.caller == "user"]


def test_the_workflows_role_may_do_what_all_of_these_called_and_nothing_else(
    account: Acceptance, tmp_path: Path
) -> None:
    """Last, for it writes what tests/servable/accept/test_role.py holds the role's policy against."""
    asked = questions(account.calls, account.tagged_keys())
    refused = [one for one in asked if not allowed(one, [{"Statement": statements(tmp_path)}])]
    assert refused == []
    write(asked)
