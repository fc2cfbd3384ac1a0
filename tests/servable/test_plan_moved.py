"""`servable plan` of a file whose service, region, or account has changed: a different stack."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from infra.parameters.environment import Environment
from infra.parameters.loading import load
from servable.plan.command import plan
from servable.plan.live import LiveState
from servable.plan.plan import add_old_stack
from servable.project.environments import Project
from tests.conftest import VALID, valid
from tests.servable.test_check_against import SCALED, Commit, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
DEPLOYED = f'service = "search"\n{SCALED}'
SERVICE = ('service = "search"', 'service = "find"')
REGION = ("eu-west-1", "us-east-1")
ACCOUNT = ("111111111111", "222222222222")
NAME = ('name = "ranker"', 'name = "finder"')


@pytest.fixture
def revision(prod: Path, commit: Commit) -> Path:
    commit(DEPLOYED)
    return prod


def write(project: Path, *changes: tuple[str, str], text: str = DEPLOYED) -> None:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (project / "environments" / "prod.toml").write_text(text)


def plan_json(project: Path, *changes: tuple[str, str]) -> dict[str, Any]:
    write(project, *changes)
    options = ("prod", "--against", "HEAD", "--json")
    ran = CliRunner().invoke(plan, options, standalone_mode=False)
    found: dict[str, Any] = json.loads(ran.stdout)
    assert ran.return_value == int(found["needs_attention"])
    return found


@pytest.mark.long
def test_a_moved_environment_is_a_second_endpoint_and_the_first_one_stays(revision: Path) -> None:
    region, service = "region eu-west-1 changes to us-east-1", "service search changes to find"
    account = "account 111111111111 changes to 222222222222"
    for changes, moves, new in (
        ((REGION,), region, "ranker"),
        ((ACCOUNT,), account, "ranker"),
        ((SERVICE, NAME), service, "finder"),
        ((REGION, SERVICE), f"{service} and {region}", "ranker"),
    ):
        found = plan_json(revision, *changes)
        assert found["verdict"] == "second endpoint"
        (reason,) = found["reasons"]
        assert reason.startswith(f"{moves}: this is a different stack.")
        assert f"creates a second endpoint, {new}, and search-prod-endpoint in eu-west-1" in reason
        assert "`aws cloudformation delete-stack --stack-name search-prod-endpoint" in reason
        assert [one["command"] for one in found["deploys"]] == ["cdk deploy 'prod/*'"]
        assert {change["what"].split()[-1] for change in found["changes"]} == {"new"}
        # What the reason says to set is the old stack again.
        first = reason.partition("To change the first one instead, set ")[2].partition(" again")[0]
        assert first.split(" and ")[0] in DEPLOYED
    # A renamed service whose endpoint keeps its name cannot be deployed.
    found = plan_json(revision, SERVICE)
    assert (found["verdict"], found["deploys"]) == ("refused", [])
    (reason,) = found["reasons"]
    assert "search-prod-endpoint has the endpoint ranker, so the deployment would fail" in reason
    assert 'set service = "search" again' in reason


@pytest.mark.long
def test_a_protected_stack_and_what_it_keeps_are_in_the_commands_of_a_move(
    revision: Path, commit: Commit
) -> None:
    protected = DEPLOYED.replace('name = "ranker"', 'name = "ranker"\nprotect = true')
    commit(f"{protected}[capture]\nsample_percent = 10\nkeep_days = 30\n")
    (reason,) = plan_json(revision, REGION)["reasons"]
    assert "search-prod-data" in reason
    assert reason.index("update-termination-protection") < reason.index("delete-stack")
    assert "aws sagemaker delete-endpoint --endpoint-name ranker --region eu-west-1" in reason


class Aws:
    """STS and CloudFormation of one account, with the stack search-prod-endpoint in eu-west-1."""

    def __init__(self, account: str = "111111111111", error: str = "") -> None:
        self.account = account
        self.error = error
        self.region = ""

    def __call__(self, environment: Environment) -> Any:
        self.region = environment.region
        return lambda service: self

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": self.account}

    def describe_stacks(self, **asked: str) -> dict[str, Any]:
        if self.error:
            raise ClientError({"Error": {"Code": self.error, "Message": ""}}, "DescribeStacks")
        if (asked["StackName"], self.region) != ("search-prod-endpoint", "eu-west-1"):
            message = f"Stack with id {asked['StackName']} does not exist"
            wrong = {"Error": {"Code": "ValidationError", "Message": message}}
            raise ClientError(wrong, "DescribeStacks")
        return {"Stacks": [{"StackStatus": "CREATE_COMPLETE"}]}

    def get_template(self, **_: str) -> dict[str, Any]:
        return {"TemplateBody": "{}"}


def add(project: Path, aws: Aws, **now: Any) -> LiveState:
    files = project / "environments"
    (loaded,) = load(project, files)
    return add_old_stack(LiveState(**now), valid(loaded), Project(str(files)), aws)


def test_a_moved_file_is_compared_with_the_commit_before_the_move_where_it_can_be_read(
    revision: Path,
) -> None:
    write(revision, REGION)
    for aws in (Aws("222222222222"), Aws(error="AccessDenied")):
        old = add(revision, aws).old
        assert old is not None
        assert old.seen is False
    write(revision, SERVICE)
    (taken,) = add(revision, Aws()).taken
    assert "search-prod-endpoint has the endpoint ranker" in taken.problem

    write(revision, REGION)
    for _ in range(2):
        old = add(revision, Aws()).old
        assert old is not None
        assert (old.name, old.region, old.seen) == ("search-prod-endpoint", "eu-west-1", True)
        git(revision, "commit", "--quiet", "--all", "--allow-empty", "--message", "moved")
    # What is deployed in the new place is compared with that alone.
    assert add(revision, Aws(), template={"Resources": {}}).old is None


def test_a_stack_that_is_gone_and_a_project_without_git_have_no_old_stack(revision: Path) -> None:
    write(revision, text=VALID)  # without a service: no stack prod-endpoint is there
    git(revision, "commit", "--quiet", "--all", "--message", "never deployed")
    write(revision, REGION, text=VALID)
    assert add(revision, Aws()).old is None
    write(revision, REGION)
    shutil.rmtree(revision / ".git")
    assert add(revision, Aws()).old is None
