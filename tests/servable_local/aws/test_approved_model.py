"""An approval in the registry starts the workflow, whose steps propose the version; merged, it deploys."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from servable.plan.synthesis import synthesise_endpoint
from stacks.pipeline_stack import add_pipelines
from tests.checkouts import PATH, ROOT, succeed_in
from tests.conftest import valid
from tests.pipelines.workflows import steps
from tests.servable_client.runtime_server import Reply, Server
from tests.servable_local.aws.live_endpoints import IMAGE, archive
from tests.servable_local.aws.local_account import TRUST, Account

pytestmark = pytest.mark.long
WORKFLOW = ROOT / "servable/new/template/dot-github/workflows/approved-model.yml"
TOKEN = "a-token-of-github"
GITHUB = "https://api.github.com"
NEWER = archive(files={"note.txt": b"newer"})
ENVIRONMENT = """
account = "ACCOUNT"
region = "us-east-1"
[endpoint]
name = "ranker"
execution_role = "arn:aws:iam::ACCOUNT:role/serving"
[models.ranker]
tensorflow = "2.20"
artifact = { model_package = "ranker/1", uri = "URI", sha256 = "SHA", default_model = "model" }
[variants.primary]
model = "ranker"
instance_type = "ml.c5.xlarge"
"""


@dataclass
class Repository:
    """A repository and GitHub's API beside it, and what the stand-in of gh was told."""

    account: Account
    folder: Path
    github: Server

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments]
        return succeed_in(self.folder, *command).stdout

    @property
    def told(self) -> list[str]:
        """The calls of gh, each as one line."""
        return (self.folder.parent / "gh.txt").read_text().splitlines()

    def run(self, environment: str) -> None:
        """The workflow's own shell, step by step; what installs is this test's own computer."""
        inside = {**os.environ, "PATH": f"{self.folder.parent}/bin:{PATH}", "PYTHONPATH": str(ROOT)}
        inside |= {"ENVIRONMENT": environment, "RUNNER_TEMP": str(self.folder.parent)}
        variables = self.account.aws.environment_over(inside, account=self.account.number)
        self.git("switch", "--quiet", "main")
        for step in steps(WORKFLOW):
            if not step.name.startswith("Install"):
                succeed_in(self.folder, "bash", "-e", "-c", step.script, environment=variables)

    def proposed(self) -> str:
        """The environment's file on the branch of the pull request."""
        return self.git("show", "origin/approved-model-staging:environments/staging.toml")


@pytest.fixture(scope="module")
def repository(accounts: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """After the second version was approved, and the workflow ran for that."""
    folder = tmp_path_factory.mktemp("approved")
    with Server(lambda received: Reply(204)) as github:
        made = Repository(accounts.another(), folder / "project", github)
        _registered(made)
        _committed(made)
        made.account.client("secretsmanager").create_secret(Name="github", SecretString=TOKEN)
        assert made.account.deploy(_trigger(made), "pipeline-staging") == "CREATE_COMPLETE"
        _approve(made, 2)
        made.run(json.loads(github.received[0].body)["inputs"]["environment"])
        yield made


def _registered(made: Repository) -> None:
    made.account.client("iam").create_role(RoleName="serving", AssumeRolePolicyDocument=TRUST)
    statuses = ("Approved", "PendingManualApproval")
    for number, content in enumerate((archive(), NEWER), start=1):
        uri = made.account.put_archive(content, f"ranker-{number}/model.tar.gz")
        made.account.register_version({"Image": IMAGE, "ModelDataUrl": uri}, statuses[number - 1])


def _committed(made: Repository) -> None:
    files = made.folder / "environments"
    files.mkdir(parents=True)
    uri = f"s3://archives-{made.account.number}/ranker-1/model.tar.gz"
    text = ENVIRONMENT.replace("ACCOUNT", made.account.number).replace("URI", uri)
    (files / "staging.toml").write_text(text.replace("SHA", hashlib.sha256(archive()).hexdigest()))
    (made.folder / "cdk.json").write_text("{}")
    (made.folder / ".gitignore").write_text(".servable/\n")
    origin = made.folder.parent / "origin.git"
    made.git("init", "--quiet", "--bare", str(origin))
    made.git("init", "--quiet", "--initial-branch", "main")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message", "The first version")
    made.git("remote", "add", "origin", str(origin))
    made.git("push", "--quiet", "origin", "main")
    gh = made.folder.parent / "bin" / "gh"
    gh.parent.mkdir()
    # It lists a pull request once it has made one.
    gh.write_text(
        '#!/bin/sh\nfile="$RUNNER_TEMP/gh.txt"\necho "$@" >> "$file"\n'
        'case "$*" in "pr list "*) if grep -q "^pr create" "$file"; then echo 7; fi ;; esac\n'
    )
    gh.chmod(stat.S_IRWXU)


def _trigger(made: Repository) -> dict[str, Any]:
    """The stack pipeline-staging without its roles for GitHub, whose provider the local AWS does not have."""
    app = cdk.App(
        outdir=str(made.folder.parent / "cdk.out"), builtin_cloud_formation_validation=False
    )
    files = load(made.folder, made.folder / "environments")
    add_pipelines(app, files, "me@11/mine@22", None, "github")
    (stack,) = (each for each in app.node.children if isinstance(each, cdk.Stack))
    resources = dict(Template.from_stack(stack).to_json())["Resources"]
    kept = {name: each for name, each in resources.items() if name.startswith("Approvals")}
    return dict(json.loads(json.dumps({"Resources": kept}).replace(GITHUB, made.github.url)))


def _approve(made: Repository, version: int, status: str = "Approved") -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{made.account.number}:model-package/ranker/{version}"
    made.account.client("sagemaker").update_model_package(
        ModelPackageArn=arn, ModelApprovalStatus=status
    )


def test_an_approval_starts_the_workflow_with_the_token(repository: Repository) -> None:
    sent = repository.github.received[0]
    assert (sent.path, sent.headers["authorization"], json.loads(sent.body)) == (
        "/repos/me/mine/actions/workflows/approved-model.yml/dispatches",
        f"Bearer {TOKEN}",
        {"ref": "main", "inputs": {"environment": "staging"}},
    )

    cloudformation = repository.account.client("cloudformation")
    template = cloudformation.get_template(StackName="pipeline-staging")["TemplateBody"]
    assert TOKEN not in json.dumps(template)

    before = len(repository.github.received)
    _approve(repository, 1, "Rejected")
    assert len(repository.github.received) == before


def test_a_renewed_token_is_sent_after_a_deployment_and_a_deleted_stack_leaves_nothing(
    repository: Repository, account: Account
) -> None:
    secrets, sagemaker = account.client("secretsmanager"), account.client("sagemaker")
    with Server(lambda received: Reply(204)) as github:
        text = json.dumps(_trigger(Repository(account, repository.folder, github)))
        for name in ("github", "renewed"):
            secrets.create_secret(Name=name, SecretString=f"token-{name}")
            template = json.loads(text.replace(":github:", f":{name}:"))
            assert account.deploy(template).endswith("_COMPLETE")
        sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
        sagemaker.create_model_package(
            ModelPackageGroupName="ranker", ModelApprovalStatus="Approved",
            ModelPackageDescription="a version")  # fmt: skip
    sent = [each.headers["authorization"] for each in github.received]
    assert sent == ["Bearer token-renewed"]
    assert (account.delete(), account.inventory()) == ("DELETE_COMPLETE", [])


def test_one_pull_request_has_the_approved_version(repository: Repository) -> None:
    text = repository.proposed()
    digest = hashlib.sha256(NEWER).hexdigest()
    assert [part in text for part in ('"ranker/2"', digest, "ranker-2/model.tar.gz")] == [True] * 3
    repository.run("staging")
    assert len([call for call in repository.told if call.startswith("pr create")]) == 1


def test_what_is_merged_serves_the_approved_version(repository: Repository) -> None:
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "origin/approved-model-staging")
    (loaded,) = load(repository.folder, repository.folder / "environments")
    template = synthesise_endpoint(valid(loaded))
    account = repository.account
    account.bootstrap()
    assert account.deploy(template, "staging-endpoint") == "CREATE_COMPLETE"
    sagemaker = account.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    container = sagemaker.describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    assert container["ModelPackageName"].endswith(":model-package/ranker/2")

    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "origin/approved-model-staging")
    before = repository.git("rev-parse", "origin/approved-model-staging")
    repository.run("staging")
    assert repository.git("rev-parse", "origin/approved-model-staging") == before
