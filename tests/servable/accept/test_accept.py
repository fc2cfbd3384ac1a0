"""`servable accept` against a local AWS whose minute lasts two seconds: whole, and interrupted.

One local AWS for the file, bootstrapped once; containers are stand-ins. `make accept-local` runs the rest.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servable.accept.acceptance import Acceptance, Ran, acceptance

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
# A step of each sort; every further deployment takes five seconds of a processor.
STEPS = "doctor,deploy,verify,client,bodies,answers-500,serverless,batch,components"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acceptance]:
    with acceptance(tmp_path_factory.mktemp("accept")) as made:
        yield made


@pytest.fixture(scope="module")
def whole(account: Acceptance) -> tuple[Ran, dict[str, Any], list[tuple[str, str]]]:
    """What it printed, its report, and what is there that was not."""
    before = account.inventory()
    ran = account.accept("--only", STEPS, "--minutes=600", "--dollars=9", "--json")
    left = sorted(set(account.inventory()) - set(before))
    return ran, account.reports()[-1], left


def test_every_step_holds(
    whole: tuple[Ran, dict[str, Any], list[tuple[str, str]]],
) -> None:
    ran, report, _ = whole
    outcomes = {step["name"]: (step["outcome"], step["reason"]) for step in report["steps"]}
    others = {name: why for name, why in outcomes.items() if why[0] != "holds"}
    assert others == {}, ran.stderr
    assert (ran.returncode, report["verdict"]) == (0, "holds")


def test_a_whole_run_leaves_nothing(
    whole: tuple[Ran, dict[str, Any], list[tuple[str, str]]],
) -> None:
    assert whole[2] == []


def deploying(account: Acceptance) -> bool:
    """Whether a stack of a run is there."""
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    return any(stack["StackName"].startswith("servable-accept-") for stack in stacks)


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
