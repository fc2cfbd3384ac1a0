"""One of every type: made, read back from the services, changed, removed."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.presets import templates
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import environment
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import DeployedNames
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long


_BESIDE = [("AWS::S3::Bucket", 1)]  # the one that holds the archive


def _declared(template: dict[str, dict[str, dict[str, str]]]) -> Counter[str]:
    return Counter(resource["Type"] for resource in template["Resources"].values())


def test_a_stack_holds_its_template_once_and_leaves_nothing(account: Account) -> None:
    template = environment(account.put_archive(b"one"))
    account.deploy(template)
    found = Counter(kind for kind, _ in account.inventory())
    assert found - Counter(dict(_BESIDE)) == _declared(template)
    refused = account.client("cloudformation").exceptions.ClientError
    with pytest.raises(refused, match="No updates are to be performed."):
        account.deploy(template)
    account.delete()
    assert [kind for kind, _ in account.inventory()] == ["AWS::S3::Bucket"]


def test_another_archive_keeps_the_counts(account: Account) -> None:
    template = environment(account.put_archive(b"one", "one.tar.gz"))
    account.deploy(template)
    before = Counter(kind for kind, _ in account.inventory())
    changed = environment(account.put_archive(b"two", "two.tar.gz"))
    account.deploy(changed)
    assert Counter(kind for kind, _ in account.inventory()) == before


OLD = json.loads(Path(__file__).with_name("template_of_3221d2d4.json").read_text(encoding="utf-8"))
# Longer than the canary's bakes together.
MINUTES = 15


class Upgrade:
    """The old stack with requests, then the new template over it."""

    def __init__(self, deployed: DeployedNames, watched: Watched) -> None:
        self.account = deployed.account
        self.endpoint = deployed.endpoint
        self.before = self._resources()
        self.arn = self._described()["EndpointArn"]
        self.created = self._described()["CreationTime"]
        deployed.deploy(templates("environments/prod")["endpoint"], wait=False)
        deadline = time.monotonic() + 60
        while "PendingDeploymentSummary" not in self._described() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.baked = self._described().get("PendingDeploymentSummary")
        watched.minutes(MINUTES, requests=2, endpoint=deployed.endpoint)
        self.status = self.account.settled()
        self.after = self._resources()

    def _described(self) -> dict[str, Any]:
        sagemaker = self.account.client("sagemaker")
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=self.endpoint)
        return found

    def _resources(self) -> dict[str, tuple[str, str]]:
        """Logical id -> type and physical id."""
        listed = self.account.client("cloudformation").describe_stack_resources(StackName="stack")
        return {
            one["LogicalResourceId"]: (one["ResourceType"], one["PhysicalResourceId"])
            for one in listed["StackResources"]
        }

    def replaced(self) -> Counter[str]:
        """Types of the resources that are not what they were, by how many of them are gone."""
        gone = set(self.before.values()) - set(self.after.values())
        return Counter(kind.removeprefix("AWS::") for kind, _ in gone)


@pytest.fixture(scope="module")
def upgrade(embedded: LocalAws, launcher: Launcher, clock: ManualClock, server: Server) -> Upgrade:
    deployed = DeployedNames(embedded, launcher, OLD)
    assert deployed.status == "CREATE_COMPLETE"
    return Upgrade(deployed, Watched(deployed.account, clock, server))


def test_one_deployment_replaces_the_fleet_and_nothing_else(upgrade: Upgrade) -> None:
    assert upgrade.status == "UPDATE_COMPLETE"
    found = upgrade._described()
    assert (found["EndpointArn"], found["CreationTime"]) == (upgrade.arn, upgrade.created)
    assert upgrade.baked is not None
    # A new fleet has a model with its role's policy, a configuration, and rollback alarms of its
    # own.
    assert upgrade.replaced() == {
        "IAM::Policy": 1,
        "SageMaker::Model": 1,
        "SageMaker::EndpointConfig": 1,
        "CloudWatch::Alarm": 2,
    }
    kept = {"SNS::Topic", "Logs::LogGroup", "CloudWatch::Dashboard", "IAM::Role", "KMS::Key"}
    assert kept & set(upgrade.replaced()) == set()
