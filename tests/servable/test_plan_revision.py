"""Environment files of a git revision, and a plan whose service, region, or account differs from it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded, build_deployed_variants, load
from model_packaging.beside import WHEELS
from servable.new.project_files import read_cdk_context
from servable.plan.command import plan
from servable.plan.live import LiveState
from servable.plan.plan import add_old_stack
from servable.project.environments import Project
from servable.project.revision import (
    RevisionError,
    attach_revision,
    check_out_revision,
    load_revision,
)
from tests.conftest import VALID, valid
from tests.servable.test_check_against import SCALED, Commit, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
LIVE, NEXT = VALID, VALID.replace("ml.c5.xlarge", "ml.m5.xlarge")


@pytest.fixture
def committed(prod: Path, commit: Commit) -> Path:
    """The first commit has prod with ml.c5.xlarge; the files now say ml.m5.xlarge, and new.toml is added."""
    (prod / "environments" / "notes.txt").write_text("not an environment")
    commit(LIVE)
    for name in ("prod", "new"):
        (prod / "environments" / f"{name}.toml").write_text(NEXT)
    return prod


def find(folder: Path) -> Project:
    return Project(str(folder / "environments"))


def types(loaded: Loaded) -> list[str | None]:
    return [each.instance_type for each in valid(loaded).environment.variants.values()]


def test_a_revision_has_its_own_files_beside_those_of_today_and_this_computers_wheels(
    committed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    then = load_revision(find(committed), "HEAD")
    assert {name: types(loaded) for name, loaded in then.items()} == {"prod": ["ml.c5.xlarge"]}

    several = attach_revision(find(committed).load_all(), find(committed), "HEAD")
    new, prod = sorted(several, key=lambda one: one.name)
    assert prod.before is not None
    assert (prod.against, types(prod)) == ("HEAD", ["ml.m5.xlarge"])
    assert prod.deployed == build_deployed_variants(prod.before)
    assert prod.deployed["primary"].instance_type == "ml.c5.xlarge"
    assert (new.against, new.before, new.deployed) == ("HEAD", None, {})

    with check_out_revision(find(committed), "HEAD") as then:
        assert not (then["prod"].root / WHEELS).exists()

    (committed / WHEELS).mkdir(parents=True)
    (committed / WHEELS / "a.whl").write_bytes(b"wheel")
    with check_out_revision(find(committed), "HEAD") as then:
        assert (then["prod"].root / WHEELS / "a.whl").read_bytes() == b"wheel"

    (committed / "code" / "inference.py").write_text("later")
    with check_out_revision(find(committed), "HEAD") as then:
        root = then["prod"].root
        assert (root / "code" / "inference.py").read_text() != "later"
        assert types(then["prod"]) == ["ml.c5.xlarge"]
    assert not root.exists()

    elsewhere = Project(str(tmp_path_factory.mktemp("elsewhere")))
    with pytest.raises(RevisionError, match=r"--against HEAD: .*isn't in the project"):
        load_revision(elsewhere, "HEAD")


def test_without_git_or_a_context_it_is_said_what_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in [None, "{", '{"app": "x"}']:
        if text is not None:
            (project / "cdk.json").write_text(text)
        assert read_cdk_context(project) == {}

    with pytest.raises(RevisionError) as raised:
        load_revision(find(project), "HEAD")
    text = str(raised.value)
    assert text.startswith("--against HEAD: not a git repository")
    assert text.endswith("; pass a commit, branch, or tag that git log shows")
    monkeypatch.setenv("PATH", "")
    missing = "git is not installed, and --against needs it; install git"
    with pytest.raises(RevisionError, match=missing):
        load_revision(find(project), "HEAD")


# --- `servable plan` of a file whose service, region, or account has changed: a different stack

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
        self.account, self.error, self.region = account, error, ""

    def __call__(self, environment: Environment) -> Any:
        self.region = environment.region
        return lambda service: self

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": self.account}

    def describe_stacks(self, **asked: str) -> dict[str, Any]:
        there = (asked["StackName"], self.region) == ("search-prod-endpoint", "eu-west-1")
        if self.error or not there:
            message = "" if self.error else f"Stack with id {asked['StackName']} does not exist"
            wrong = {"Error": {"Code": self.error or "ValidationError", "Message": message}}
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
        assert (old and old.seen) is False
    write(revision, SERVICE)
    (taken,) = add(revision, Aws()).taken
    assert "search-prod-endpoint has the endpoint ranker" in taken.problem

    write(revision, REGION)
    for _ in range(2):
        old = add(revision, Aws()).old
        found = old and (old.name, old.before.region, old.seen)
        assert found == ("search-prod-endpoint", "eu-west-1", True)
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
