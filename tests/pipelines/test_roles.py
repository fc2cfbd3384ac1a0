"""The roles of the pipelines: one subject each, the bootstrap's roles, and reading."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from stacks.pipeline_stack import add_pipelines
from tests.conftest import VALID
from tests.pipelines.workflows import FOLDER, read


def made(folder: Path, text: str) -> list[dict[str, Any]]:
    """The templates of the pipelines' stacks of one environment, `prod`."""
    (folder / "prod.toml").write_text(text)
    app = cdk.App()
    add_pipelines(app, load(folder, folder), "me/mine", None)
    stacks = [one for one in app.node.children if isinstance(one, cdk.Stack)]
    return [dict(Template.from_stack(one).to_json()) for one in stacks]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (found,) = made(tmp_path_factory.mktemp("pipelines"), VALID)
    return found


def roles(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for one in template["Resources"].values():
        if one["Type"] == "AWS::IAM::Role":
            (statement,) = one["Properties"]["AssumeRolePolicyDocument"]["Statement"]
            said = statement["Condition"]["StringEquals"]
            found[said["token.actions.githubusercontent.com:sub"]] = said
    return found


def statements(template: dict[str, Any], which: str) -> list[dict[str, Any]]:
    return [
        statement
        for name, one in template["Resources"].items()
        if one["Type"] == "AWS::IAM::Policy" and name.startswith(which)
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_a_role_trusts_one_environment_and_one_the_pull_requests(template: dict[str, Any]) -> None:
    assert set(roles(template)) == {"repo:me/mine:environment:prod", "repo:me/mine:pull_request"}


def test_tokens_for_somebody_else_are_not_taken(template: dict[str, Any]) -> None:
    key = "token.actions.githubusercontent.com:aud"
    assert {one[key] for one in roles(template).values()} == {"sts.amazonaws.com"}


def test_a_pull_request_may_look_and_no_more(template: dict[str, Any]) -> None:
    (statement,) = statements(template, "Compares")
    assert statement["Action"] == "sts:AssumeRole"
    assert "-lookup-role-" in json.dumps(statement["Resource"])


def test_no_role_may_anything_whole(template: dict[str, Any]) -> None:
    for statement in statements(template, ""):
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            assert "*" not in action


def test_what_is_on_every_resource_only_reads(template: dict[str, Any]) -> None:
    for statement in statements(template, "Deploys"):
        if statement["Resource"] == "*":
            verbs = {action.partition(":")[2] for action in statement["Action"]}
            assert all(verb.startswith(("Describe", "Get", "List")) for verb in verbs)


def may(template: dict[str, Any], action: str) -> str:
    """What the deploying role may do it to, as JSON."""
    found = [one["Resource"] for one in statements(template, "Deploys") if one["Action"] == action]
    return json.dumps(found)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of an environment that serves an archive in S3."""
    artifact = f'{{ uri = "s3://runs/17/model.tar.gz", sha256 = "{"0" * 64}" }}'
    text = VALID.replace('saved_model = "model"', f"artifact = {artifact}")
    (found,) = made(tmp_path_factory.mktemp("pinned"), text)
    return found


def test_an_archive_that_something_else_packed_may_be_read(pinned: dict[str, Any]) -> None:
    assert ":s3:::runs/17/model.tar.gz" in may(pinned, "s3:GetObject")


def test_an_archive_that_is_gone_is_not_told_apart_by_a_denial(pinned: dict[str, Any]) -> None:
    assert ':s3:::runs"' in may(pinned, "s3:ListBucket")


def test_whether_scaling_has_its_role_may_be_asked(template: dict[str, Any]) -> None:
    role = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    path = f":role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/{role}"
    assert path in may(template, "iam:GetRole")


def test_credentials_last_as_long_as_the_job_that_deploys(template: dict[str, Any]) -> None:
    job = read(FOLDER / "deploy-environment.yml")["jobs"]["deploy"]
    (asked,) = (
        step["with"]["role-duration-seconds"]
        for step in job["steps"]
        if "role-to-assume" in step.get("with", {})
    )
    allowed = {
        one["Properties"]["MaxSessionDuration"]
        for one in template["Resources"].values()
        if one["Type"] == "AWS::IAM::Role"
    }
    assert job["timeout-minutes"] * 60 <= asked <= min(allowed)


def test_two_environments_of_one_account_share_the_provider(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(VALID.replace('"ranker"', '"other"', 1))
    providers = [
        one
        for template in made(tmp_path, VALID)
        for one in template["Resources"].values()
        if one["Type"] == "AWS::IAM::OIDCProvider"
    ]
    assert len(providers) == 1


def test_a_golden_request_may_be_put_into_a_queue_and_nothing_else(tmp_path: Path) -> None:
    (template,) = made(tmp_path, VALID + "[asynchronous]\n")
    written = [one for one in statements(template, "Deploys") if one["Action"] == "s3:PutObject"]
    assert len(written) == 1
    assert json.dumps(written[0]["Resource"]).endswith(':s3:::prod-data-*/requests/*"]]}')
