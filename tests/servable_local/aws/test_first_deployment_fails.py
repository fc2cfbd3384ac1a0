"""A first deployment that fails at any resource leaves nothing that costs, and the next one works.

One resource of each type fails, the last of them in the template; all were tried once (0.6 s each).
Each failure is of a stack that the failure before it left, as `cdk deploy` finds it: it deletes a stack in
ROLLBACK_COMPLETE and creates it again.
"""

import json
from typing import Any

import pytest

from infra.parameters.loading import load
from servable_local.aws.cloudformation.resource_calls import ResourceCalls
from servable_local.aws.cloudformation.stacks import StackResource
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.resources.resource_type import ResourceError, ResourceType
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.presets import synthesised
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import DeployedNames

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def template(*, protect: bool, stack: str) -> dict[str, Any]:
    overrides = {
        "prod": {"endpoint.protect": str(protect).lower()}
        # Only where something is kept is there a stack for it.
        | ({"capture.sample_percent": "20"} if stack == "data" else {})
    }
    loaded = next(one for one in load(ROOT, ROOT / "environments", overrides) if one.name == "prod")
    return synthesised(valid(loaded))[stack]


class Failing(DeployedNames):
    """A stack whose creation fails at one resource after another, and succeeds at last."""

    def __init__(
        self,
        aws: LocalAws,
        launcher: Launcher,
        made: pytest.MonkeyPatch,
        *,
        protect: bool,
        stack: str,
    ) -> None:
        self.protect, self.at = protect, "nothing"
        self.account, self._launcher = Account(aws, launcher), launcher
        asked = template(protect=protect, stack=stack)
        types = {one["Type"]: name for name, one in asked["Resources"].items()}
        # Protection is the endpoint's: before it a protected stack fails as any other.
        begins = list(types).index("AWS::SageMaker::Endpoint") if protect else 0
        self.names = list(types.values())[begins:]
        bootstrap = asked["Parameters"]["BootstrapVersion"]["Default"]
        self.account.client("ssm").put_parameter(Name=bootstrap, Value="30", Type="String")
        type_of = ResourceCalls.find_type

        def failing(calls: ResourceCalls, resource: StackResource) -> ResourceType:
            if resource.logical_id == self.at:
                raise calls._record_failure(
                    resource, "CREATE", str(ResourceError("refused by a test"))
                )
            return type_of(calls, resource)

        made.setattr(ResourceCalls, "find_type", failing)
        self.asked = asked

    def create(self, at: str) -> str:
        """The status of a creation that fails there, after what is left of the one before is deleted."""
        cloudformation, self.at = self.account.client("cloudformation"), at
        if cloudformation.describe_stacks()["Stacks"]:
            cloudformation.update_termination_protection(
                StackName="stack", EnableTerminationProtection=False
            )
            self.account.delete()
        asked = json.loads(json.dumps(self.asked))
        url = self.account.put_archive(b"archive", "archive.tar.gz")
        for resource in asked["Resources"].values():
            if resource["Type"] == "AWS::SageMaker::Model":
                resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = url
        return self.account.deploy(asked, EnableTerminationProtection=self.protect)

    def left(self) -> list[str]:
        """Types of what exists beside the bucket of the archive and the bootstrap's parameter."""
        own = {("AWS::S3::Bucket", 0), ("AWS::SSM::Parameter", 0)}
        return [kind for kind, _ in self.account.inventory() if (kind, 0) not in own]


@pytest.fixture(
    scope="module",
    params=[(False, "endpoint"), (True, "endpoint"), (False, "data")],
    ids=["unprotected", "protected", "data"],
)
def failures(
    request: pytest.FixtureRequest, embedded: LocalAws, launcher: Launcher
) -> dict[str, tuple[str, list[str]]]:
    """Where it failed -> status and what was left; at last without a failure."""
    with pytest.MonkeyPatch.context() as made:
        protect, stack = request.param
        failing = Failing(embedded, launcher, made, protect=protect, stack=stack)
        return {at: (failing.create(at), failing.left()) for at in [*failing.names, "nothing"]}


def test_every_failure_is_taken_back(failures: dict[str, tuple[str, list[str]]]) -> None:
    ended = {at: status for at, (status, _) in failures.items() if at != "nothing"}
    assert set(ended.values()) == {"ROLLBACK_COMPLETE"}, ended
    assert {at: left for at, (_, left) in failures.items() if left and at != "nothing"} == {}
    assert failures["nothing"][0] == "CREATE_COMPLETE"
