"""A live endpoint made by hand becomes a stack's, by each way, while a caller goes on calling."""

import json
import shlex
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable.adoption.live_picture import LivePicture
from servable.adoption.live_template import live_template
from servable.adoption.ways import NewOwner, import_files, take_over
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.live_endpoints import NAME, LiveEndpoint
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_adoption import Adopted, adopt

pytestmark = pytest.mark.long
STACK = "dev-endpoint"


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
        wanted, deadline = self.answered + count, time.monotonic() + 20
        while self.answered < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.answered >= wanted


class Taken:
    """A live endpoint with the file that was written of it, and steps that are run as printed."""

    def __init__(self, account: Account, adopted: Adopted) -> None:
        self.account, self.adopted = account, adopted
        bootstrap = adopted.template["Parameters"]["BootstrapVersion"]["Default"]
        account.client("ssm").put_parameter(Name=bootstrap, Value="30", Type="String")

    @property
    def picture(self) -> LivePicture:
        return self.adopted.picture

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

    def steps(self, way: str, endpoint_name: str = NAME) -> list[str]:
        owner = NewOwner(environment="dev", endpoint_name=endpoint_name, stack=STACK)
        steps = take_over(way, self.picture, owner).steps
        return [command for step in steps for command in step.command.split(" && ") if command]

    def aws(self, command: str) -> Any:
        """Runs an `aws SERVICE OPERATION --NAME VALUE` of the steps by boto3."""
        words = shlex.split(command)
        service, operation = words[1], words[2].replace("-", "_")
        pairs = dict(zip(words[3::2], words[4::2], strict=True))
        arguments = {
            "".join(part.capitalize() for part in name.removeprefix("--").split("-")): value
            for name, value in pairs.items()
            if name != "--region"
        }
        return getattr(self.account.client(service), operation)(**arguments)

    def names(self) -> list[str]:
        listed = self.account.client("sagemaker").list_endpoints()["Endpoints"]
        return [each["EndpointName"] for each in listed]


@pytest.fixture
def taken(embedded: LocalAws, launcher: Launcher, tmp_path: Path) -> Taken:
    live = LiveEndpoint(Account(embedded, launcher))
    live.container["Environment"] = {"FEATURES": "v2"}
    live.variant["InitialInstanceCount"] = 2
    live.make()
    return Taken(live.account, adopt(live.account, tmp_path))


def test_a_new_endpoint_beside_the_old_one_fails_no_request(taken: Taken) -> None:
    with Caller(taken.account, NAME) as caller:
        caller.answered_more()
        assert taken.account.deploy(taken.template("ranker-2"), STACK) == "CREATE_COMPLETE"
        caller.answered_more()
        caller.endpoint = "ranker-2"
        caller.answered_more()
        for command in taken.steps("beside", "ranker-2"):
            if "delete" in command:
                taken.aws(command)
        caller.answered_more()
    assert (caller.failed, taken.names()) == ([], ["ranker-2"])


def imported(taken: Taken) -> str:
    """Runs the import that the steps print; returns the status of the stack."""
    template, resources = import_files(
        taken.picture, live_template(taken.picture, taken.template()), taken.template()
    )
    cloudformation = taken.account.client("cloudformation")
    cloudformation.create_change_set(
        StackName=STACK,
        ChangeSetName="adopt",
        ChangeSetType="IMPORT",
        TemplateBody=json.dumps(template),
        ResourcesToImport=resources,
    )
    cloudformation.execute_change_set(StackName=STACK, ChangeSetName="adopt")
    return taken.account.settled(STACK)


def test_an_import_and_the_deploy_after_it_fail_no_request(taken: Taken) -> None:
    with Caller(taken.account, NAME) as caller:
        caller.answered_more()
        statuses = [imported(taken), taken.account.deploy(taken.template(), STACK)]
        caller.answered_more()
    assert (statuses, caller.failed) == (["IMPORT_COMPLETE", "UPDATE_COMPLETE"], [])


def test_an_import_changes_nothing_of_what_is_live(taken: Taken) -> None:
    sagemaker = taken.account.client("sagemaker")
    before = sagemaker.describe_endpoint(EndpointName=NAME)
    imported(taken)
    after = sagemaker.describe_endpoint(EndpointName=NAME)
    assert [each.pop("ResponseMetadata") is not None for each in (before, after)] == [True, True]
    assert before == after


def test_a_stack_that_is_deleted_before_the_deploy_leaves_the_endpoint(taken: Taken) -> None:
    imported(taken)
    assert (taken.account.delete(STACK), taken.names()) == ("DELETE_COMPLETE", [NAME])


def test_the_deploy_after_an_import_keeps_the_endpoint_and_its_instances(taken: Taken) -> None:
    sagemaker = taken.account.client("sagemaker")
    created = sagemaker.describe_endpoint(EndpointName=NAME)["CreationTime"]
    imported(taken)
    taken.account.deploy(taken.template(), STACK)
    live = sagemaker.describe_endpoint(EndpointName=NAME)
    counts = [each["CurrentInstanceCount"] for each in live["ProductionVariants"]]
    assert (live["CreationTime"], counts) == (created, [2])


def test_an_import_of_what_does_not_exist_leaves_no_resource_in_the_stack(taken: Taken) -> None:
    taken.account.client("sagemaker").delete_endpoint(EndpointName=NAME)
    assert imported(taken) == "IMPORT_ROLLBACK_COMPLETE"


def test_deletion_keeps_configuration_and_model_until_the_last_step(taken: Taken) -> None:
    commands = [command for command in taken.steps("delete") if command.startswith("aws")]
    taken.aws(commands[0])
    while NAME in taken.names():
        time.sleep(0.01)
    assert taken.account.deploy(taken.template(), STACK) == "CREATE_COMPLETE"
    last = [command for command in commands[1:] if " wait " not in command]
    for command in last:  # each would raise if its resource were gone already
        taken.aws(command)
    runtime = taken.account.client("sagemaker-runtime")
    assert runtime.invoke_endpoint(EndpointName=NAME, Body=b"[1]")["Body"].read()
