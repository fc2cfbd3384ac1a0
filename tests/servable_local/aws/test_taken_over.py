"""A live endpoint becomes a stack's by the commands of docs/adopting.md, while a caller goes on calling."""

import json
import shlex
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.live_endpoints import LIVE, NAME, LiveEndpoint, page_blocks
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_adoption import Adopted, adopt

pytestmark = pytest.mark.long
STACK = "prod-endpoint"


@dataclass
class Caller:
    """Calls an endpoint all the time until the block is left; `endpoint` may be changed meanwhile."""

    account: Account
    endpoint: str
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Caller":
        self._thread = threading.Thread(target=self._call)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _call(self) -> None:
        runtime = self.account.client("sagemaker-runtime")
        while not self._ended.is_set():
            try:
                runtime.invoke_endpoint(EndpointName=self.endpoint, Body=b"[1]")
                self.answered += 1
            except ClientError as error:
                self.failed.append(str(error))
            time.sleep(0.01)

    def answered_more(self, count: int = 5) -> None:
        """Waits for answers that begin from now on."""
        wanted = self.answered + count
        until(lambda: self.answered >= wanted, 20)


class Taken:
    """A live endpoint with the file that was written of it, and steps that are run as printed."""

    def __init__(self, account: Account, adopted: Adopted) -> None:
        self.account, self.adopted = account, adopted
        account.bootstrap()

    def template(self, endpoint_name: str = NAME) -> dict[str, Any]:
        """The template of the file, with this endpoint.name."""
        text = json.dumps(self.adopted.template)
        template: dict[str, Any] = json.loads(text)
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::SageMaker::Endpoint":
                resource["Properties"]["EndpointName"] = endpoint_name
            if resource["Type"] == "AWS::Logs::LogGroup":
                resource["Properties"]["LogGroupName"] += endpoint_name.removeprefix(NAME)
        return template

    def files(self) -> list[Any]:
        """Return template.json and resources.json of the page, with this account's numbers and names."""
        model = self.adopted.snapshot.config["ProductionVariants"][0]["ModelName"]
        ours = {"123456789012": self.account.number, ":model/ranker-1": f":model/{model}",
                "endpoint-config/ranker-1": "endpoint-config/config"}  # fmt: skip
        files = page_blocks("json", "Import it")
        for name, own in ours.items():
            files = [text.replace(name, own) for text in files]
        return [json.loads(text) for text in files]

    def aws(self, command: str) -> Any:
        """Run `aws SERVICE OPERATION --NAME VALUE` by boto3."""
        words = shlex.split(command)
        service, operation = words[1], words[2].replace("-", "_")
        pairs = dict(zip(words[3::2], words[4::2], strict=True))
        arguments = {
            "".join(part.capitalize() for part in name.removeprefix("--").split("-")): value
            for name, value in pairs.items()
        }
        return getattr(self.account.client(service), operation)(**arguments)

    def names(self) -> list[str]:
        listed = self.account.client("sagemaker").list_endpoints()["Endpoints"]
        return [each["EndpointName"] for each in listed]


def commands(heading: str, operation: str) -> list[str]:
    """Return the page's commands of that beginning, with the names of this endpoint's resources."""
    text = "\n".join(page_blocks("sh", heading)).replace("\\\n", "")
    names = {"--endpoint-config-name ranker-1": "--endpoint-config-name config",
             "--model-name ranker-1": "--model-name ranker-2026-11-20-10-15-00"}  # fmt: skip
    for name, own in names.items():
        text = text.replace(name, own)
    return [line for line in text.splitlines() if line.startswith(f"aws {operation}")]


def live_endpoint(account: Account) -> LiveEndpoint:
    live = LiveEndpoint(account)
    live.container["Environment"] = {"FEATURES": "v2"}
    live.variant["InitialInstanceCount"] = 2
    return live


@pytest.fixture
def taken(account: Account, tmp_path: Path) -> Taken:
    live = live_endpoint(account)
    live.make()
    return Taken(account, adopt(account, tmp_path))


def test_a_new_endpoint_beside_the_old_one_fails_no_request(taken: Taken) -> None:
    with Caller(taken.account, NAME) as caller:
        caller.answered_more()
        assert taken.account.deploy(taken.template("ranker-2"), STACK) == "CREATE_COMPLETE"
        caller.answered_more()
        caller.endpoint = "ranker-2"
        caller.answered_more()
        for command in commands("Switch callers to the new endpoint", "sagemaker delete"):
            taken.aws(command)
        caller.answered_more()
    assert (caller.failed, taken.names()) == ([], ["ranker-2"])


def imported(taken: Taken) -> str:
    """Import the page's resources, and return the status of the stack."""
    template, resources = taken.files()
    group = template["Resources"]["Logs6819BB44"]["Properties"]["LogGroupName"]
    # As SageMaker does with the first line of a container.
    taken.account.client("logs").create_log_group(logGroupName=group)
    cloudformation = taken.account.client("cloudformation")
    given = {"TemplateBody": json.dumps(template), "ResourcesToImport": resources}
    named = {"StackName": STACK, "ChangeSetName": "adopt"}
    cloudformation.create_change_set(**named, ChangeSetType="IMPORT", **given)
    cloudformation.execute_change_set(**named)
    return taken.account.settled(STACK)


def test_an_import_and_the_deploy_after_it_fail_no_request_and_change_nothing(taken: Taken) -> None:
    template, resources = taken.files()
    own = {name: each["Type"] for name, each in taken.template()["Resources"].items()}
    live = {name: each["Type"] for name, each in template["Resources"].items()}
    assert live == {row["LogicalResourceId"]: row["ResourceType"] for row in resources}
    assert live.items() <= own.items()

    def described() -> dict[str, Any]:
        found = taken.account.client("sagemaker").describe_endpoint(EndpointName=NAME)
        return {key: value for key, value in found.items() if key != "ResponseMetadata"}

    before = described()
    with Caller(taken.account, NAME) as caller:
        caller.answered_more()
        assert imported(taken) == "IMPORT_COMPLETE"
        assert described() == before
        assert taken.account.deploy(taken.template(), STACK) == "UPDATE_COMPLETE"
        caller.answered_more()
    assert caller.failed == []
    after = described()
    counts = [each["CurrentInstanceCount"] for each in after["ProductionVariants"]]
    assert (after["CreationTime"], counts) == (before["CreationTime"], [2])


def test_scaling_is_deregistered(account: Account, tmp_path: Path) -> None:
    live = live_endpoint(account)
    LIVE["tracking"](live)
    live.make()
    taken = Taken(account, adopt(account, tmp_path))
    imported(taken)
    (command,) = commands("Import it", "application-autoscaling")
    taken.aws(command)
    assert taken.account.deploy(taken.template(), STACK) == "UPDATE_COMPLETE"


def test_a_stack_that_is_deleted_before_the_deploy_leaves_the_endpoint(taken: Taken) -> None:
    imported(taken)
    assert (taken.account.delete(STACK), taken.names()) == ("DELETE_COMPLETE", [NAME])


def test_an_import_of_what_does_not_exist_leaves_no_resource_in_the_stack(taken: Taken) -> None:
    taken.account.delete_endpoint(NAME)
    assert imported(taken) == "IMPORT_ROLLBACK_COMPLETE"


def test_deletion_keeps_configuration_and_model_until_the_last_step(taken: Taken) -> None:
    endpoint, *rest = commands("Delete it and create it again", "sagemaker delete")
    taken.aws(endpoint)
    until(lambda: NAME not in taken.names())
    assert taken.account.deploy(taken.template(), STACK) == "CREATE_COMPLETE"
    for command in rest:  # each would raise if its resource were gone already
        taken.aws(command)
    runtime = taken.account.client("sagemaker-runtime")
    assert len(rest) == 2
    assert runtime.invoke_endpoint(EndpointName=NAME, Body=b"[1]")["Body"].read()
