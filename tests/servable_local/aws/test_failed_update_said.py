"""The real CDK CLI updates an endpoint to a model that does not start: what it says then."""

import json
import os

import pytest

from servable_local.aws.local_aws import REGION, LocalAws
from tests.checkouts import PATH, Ran, run_in
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def account(embedded: LocalAws, launcher: Launcher) -> Account:
    return Account(embedded, launcher)


@pytest.fixture(scope="module")
def ran(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """`cdk deploy` of an assembly written here: nothing is synthesised or bootstrapped."""
    account.deploy(serving(account.put_archive(b"good", "good")))
    folder = tmp_path_factory.mktemp("assembly")
    broken = serving(account.put_archive(b"BROKEN", "broken"))
    (folder / "stack.template.json").write_text(json.dumps(broken))
    artifact = {
        "type": "aws:cloudformation:stack",
        "environment": f"aws://{account.number}/{REGION}",
        "properties": {"templateFile": "stack.template.json"},
    }
    manifest = {"version": "36.0.0", "artifacts": {"stack": artifact}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    environment = account.aws.environment_over({**os.environ, "PATH": PATH}, account=account.number)
    command = ("cdk", "--app", str(folder), "deploy", "--require-approval", "never")
    return run_in(folder, *command, environment=environment)


def test_the_cli_says_why_an_update_failed(ran: Ran, account: Account) -> None:
    assert "UPDATE_ROLLBACK_COMPLETE: " in ran.stdout + ran.stderr
    assert "The container did not answer its ping within 60 s." in ran.stdout + ran.stderr
    assert ran.returncode == 1

    runtime = account.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName="ranker", Body=b"x")["Body"].read()
    assert json.loads(answer)["archive"] == "good"
