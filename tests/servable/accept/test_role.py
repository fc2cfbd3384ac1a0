"""The role of the workflow that runs `servable accept` may do what a run calls, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from infra.policy.acceptance_policy import ACCEPT_LOOKS
from tests.pipelines.workflows import FOLDER, read
from tests.servable.accept.role_questions import parts, recorded, role, statements
from tests.servable_local.aws.recorded_calls import allowed

QUESTIONS = recorded()


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return statements(tmp_path_factory.mktemp("role"))


def test_what_a_run_calls_is_allowed(policy: list[dict[str, Any]]) -> None:
    refused = [one for one in QUESTIONS if not allowed(one, [{"Statement": policy}])]
    assert refused == []


def test_no_action_on_no_resource_is_allowed_that_no_run_calls(
    policy: list[dict[str, Any]],
) -> None:
    unused = [
        (part["Action"], part["Resource"])
        for statement in policy
        for part in parts(statement)
        if not any(allowed(one, [{"Statement": [part]}]) for one in QUESTIONS)
    ]
    assert unused == []


def test_what_changes_or_deletes_is_allowed_on_names_and_tags_of_runs_alone(
    policy: list[dict[str, Any]],
) -> None:
    bounds = ("servable-accept", "servable:accept", "cdk-hnb659fds-", "'sagemaker'")
    verbs = ("Describe", "Get", "List")
    wide = [
        part["Action"]
        for statement in policy
        for part in parts(statement)
        if not part["Action"].partition(":")[2].startswith(verbs)
        and not any(bound in f"{part['Resource']} {part.get('Condition')}" for bound in bounds)
    ]
    assert wide == []


def test_what_takes_no_resource_only_reads() -> None:
    verbs = {action.partition(":")[2] for action in ACCEPT_LOOKS}
    assert all(verb.startswith(("Describe", "Get", "List")) for verb in verbs)


def test_the_role_trusts_the_workflows_environment_and_lasts_as_long_as_its_job(
    tmp_path: Path,
) -> None:
    job = read(FOLDER / "accept.yml")["jobs"]["accept"]
    (seconds,) = (
        step["with"]["role-duration-seconds"]
        for step in job["steps"]
        if "role-to-assume" in step.get("with", {})
    )
    properties = role(tmp_path)
    trusted = str(properties["AssumeRolePolicyDocument"])
    assert f"'repo:me/mine:environment:{job['environment']}'" in trusted
    assert job["timeout-minutes"] * 60 <= seconds <= properties["MaxSessionDuration"]
