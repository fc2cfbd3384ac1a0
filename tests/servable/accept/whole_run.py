"""`servable accept` against a local AWS whose minute lasts two seconds: whole, and interrupted.

One local AWS for the file, bootstrapped once; containers are stand-ins. `make accept-local` runs the rest.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servable.accept.acceptance import Acceptance, Ran, acceptance, expired
from tests.servable.accept.role_questions import questions, statements
from tests.servable_local.aws.recorded_calls import allowed

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
# Steps of each sort; every further deployment takes five seconds of a processor.
SHARED = ("AWS::Logs::LogGroup", "/aws/sagemaker/TransformJobs")  # of all jobs of an account
STEPS = "doctor,deploy,verify,client,bodies,load,answers-500,serverless,batch,components"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acceptance]:
    with acceptance(tmp_path_factory.mktemp("accept")) as made:
        yield made


Whole = tuple[Ran, dict[str, Any], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def whole(account: Acceptance) -> Whole:
    """What it printed, its report, and what is there that was not."""
    before = account.inventory()
    ran = account.accept("--only", STEPS, "--minutes=600", "--dollars=9")
    left = sorted(set(account.inventory()) - set(before) - {SHARED})
    return ran, account.reports()[-1], left


def test_every_step_holds(whole: Whole) -> None:
    ran, report, _ = whole
    others = {step["name"]: step for step in report["steps"] if step["outcome"] != "holds"}
    assert others == {}, ran.stderr
    assert (ran.returncode, report["verdict"]) == (0, "holds")


def test_the_report_has_the_rate_of_its_load_test(whole: Whole) -> None:
    (step,) = (step for step in whole[1]["steps"] if step["name"] == "load")
    assert step["facts"]["users.1"]["rps"] > 0


def test_a_run_leaves_nothing(whole: Whole) -> None:
    assert whole[2] == []


def test_a_run_says_that_the_log_group_of_all_jobs_is_kept_and_what_it_costs(whole: Whole) -> None:
    (line,) = [line for line in whole[1]["kept"] if SHARED[1] in line]
    assert line.endswith("less than $0.001 a month")


def test_the_workflows_role_may_do_what_the_run_called(
    whole: Whole, account: Acceptance, tmp_path: Path
) -> None:
    asked = questions(account.calls, account.tagged_keys())
    assert [one for one in asked if not allowed(one, [{"Statement": statements(tmp_path)}])] == []


def deploying(account: Acceptance) -> bool:
    """Whether a stack of a run is there."""
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    return any(
        stack["StackName"].startswith("servable-accept-")
        and stack["StackStatus"] in ("REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS", "CREATE_COMPLETE")
        for stack in stacks
    )


def test_ctrl_c_in_a_deployment_deletes_what_was_made(account: Acceptance) -> None:
    before = account.inventory()
    ran = account.interrupted(deploying, "--only=deploy,verify")
    assert account.inventory() == before, ran.stderr
    assert ran.returncode == 130
    assert account.reports()[-1]["ended"] == "interrupted"


def test_what_a_kill_leaves_is_found_and_deleted_by_its_tag(account: Acceptance) -> None:
    before = account.inventory()
    account.interrupted(deploying, "--only=deploy", number=signal.SIGKILL)
    ran = account.accept("--clean")
    assert account.inventory() == before, ran.stderr
    assert ran.returncode == 0


def test_lost_credentials_end_the_run_and_say_how_the_deletion_goes_on(account: Acceptance) -> None:
    before = account.inventory()
    process = account.start("--only=deploy,verify")
    try:
        while not deploying(account):
            time.sleep(0.05)
        account.fault = expired
        _, errors = process.communicate(timeout=200)
    finally:
        account.fault = lambda call: None
    assert (process.returncode, "servable accept --clean" in errors) == (1, True), errors
    ran = account.accept("--clean")
    assert account.inventory() == before, ran.stderr
