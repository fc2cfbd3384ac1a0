"""Whole environments: a stack's life, an old stack, a first deployment that fails, the secure base."""

import copy
import json
import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.loading import load
from servable_local.aws.cloudformation.resource_calls import ResourceCalls
from servable_local.aws.cloudformation.stacks import StackResource
from servable_local.aws.resources.resource_type import ResourceError, ResourceType
from tests.checkouts import ROOT, succeed_in
from tests.conftest import valid
from tests.presets import synthesised, templates
from tests.servable_local.aws.everything_on import FLAGS
from tests.servable_local.aws.local_account import TRUST, Account
from tests.servable_local.aws.synthesised import DeployedNames
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long


def test_a_stack_holds_its_template_once_and_leaves_nothing(account: Account) -> None:
    template = copy.deepcopy(templates("environments/prod")["endpoint"])
    for one in template["Resources"].values():
        one["Properties"].pop("DeploymentConfig", None)  # whose updates take their time
    deployed = DeployedNames(account, template)

    def kinds() -> Counter[str]:
        return Counter(kind for kind, _ in account.inventory())

    found, beside = kinds(), Counter(["AWS::S3::Bucket", "AWS::SSM::Parameter"])
    assert found - beside == Counter(one["Type"] for one in template["Resources"].values())
    refused = account.client("cloudformation").exceptions.ClientError
    with pytest.raises(refused, match="No updates are to be performed."):
        account.deploy(deployed.template)
    assert (deployed.deploy(template), kinds()) == ("UPDATE_COMPLETE", found)
    account.delete()
    assert kinds() == beside


OLD = json.loads(Path(__file__).with_name("template_of_3221d2d4.json").read_text(encoding="utf-8"))


def test_one_deployment_over_an_old_stack_replaces_the_fleet_and_nothing_else(
    account: Account,
) -> None:
    deployed = DeployedNames(account, OLD)
    assert deployed.status == "CREATE_COMPLETE"
    sagemaker, cfn = map(deployed.account.client, ("sagemaker", "cloudformation"))

    def described() -> dict[str, Any]:
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=deployed.endpoint)
        return found

    def resources() -> set[tuple[str, str]]:
        listed = cfn.describe_stack_resources(StackName="stack")["StackResources"]
        return {(one["ResourceType"], one["PhysicalResourceId"]) for one in listed}

    before, old = resources(), described()
    deployed.deploy(templates("environments/prod")["endpoint"], wait=False)
    deadline = time.monotonic() + 60
    while "PendingDeploymentSummary" not in described() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "PendingDeploymentSummary" in described()
    # Longer than the canary's bakes together.
    Watched(deployed.account).minutes(15, requests=2, endpoint=deployed.endpoint)
    assert deployed.account.settled() == "UPDATE_COMPLETE"
    new = described()
    assert all(new[name] == old[name] for name in ("EndpointArn", "CreationTime"))
    # A new fleet has a model with its role's policy, a configuration, and rollback alarms of its own.
    assert Counter(kind.removeprefix("AWS::") for kind, _ in before - resources()) == {
        "IAM::Policy": 1,
        "SageMaker::Model": 1,
        "SageMaker::EndpointConfig": 1,
        "CloudWatch::Alarm": 2,
    }


# --- a first deployment that fails
def first_template(*, protect: bool, stack: str) -> dict[str, Any]:
    keys = {"endpoint.protect": str(protect).lower()}
    # Only where something is kept is there a stack for it.
    keys |= {"capture.sample_percent": "20"} if stack == "data" else {}
    found = load(ROOT, ROOT / "environments", {"prod": keys})
    return synthesised(valid(next(one for one in found if one.name == "prod")))[stack]


def prepared(account: Account, template: dict[str, Any]) -> dict[str, Any]:
    """The template with an archive that is there, in an account that was bootstrapped."""
    account.bootstrap()
    own = copy.deepcopy(template)
    for resource in own["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Model":
            resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = account.put_archive(b"a")
    return own


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("protect", "stack"), [(False, "endpoint"), (True, "endpoint"), (False, "data")]
)
def test_a_first_deployment_that_fails_leaves_nothing_and_the_next_one_works(
    protect: bool, stack: str, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the types in the template every third fails, and the last, which takes back all of the others.

    Each failure is of a stack that the failure before it left, as `cdk deploy` finds it: it deletes a
    stack in ROLLBACK_COMPLETE and creates it again.
    """
    asked = prepared(account, first_template(protect=protect, stack=stack))
    types = {one["Type"]: name for name, one in asked["Resources"].items()}
    # Protection is the endpoint's: before it a protected stack fails as any other.
    begins = list(types).index("AWS::SageMaker::Endpoint") if protect else 0
    names = list(types.values())[begins:]
    fails, find_type = "", ResourceCalls.find_type

    def find(calls: ResourceCalls, resource: StackResource) -> ResourceType:
        if resource.logical_id == fails:
            refused = str(ResourceError("refused by a test"))
            raise calls._record_failure(resource, "CREATE", refused)
        return find_type(calls, resource)

    monkeypatch.setattr(ResourceCalls, "find_type", find)
    for fails in [*names[:-1:3], names[-1], "nothing"]:
        status = account.deploy(asked, EnableTerminationProtection=protect)
        kinds = {kind for kind, _ in account.inventory()}
        if fails == "nothing":
            assert status == "CREATE_COMPLETE"
        else:
            # Beside the bucket of the archive and the bootstrap's parameter.
            left = kinds - {"AWS::S3::Bucket", "AWS::SSM::Parameter"}
            assert (status, left) == ("ROLLBACK_COMPLETE", set()), fails
            protect_stack = account.client("cloudformation").update_termination_protection
            protect_stack(StackName="stack", EnableTerminationProtection=False)
            account.delete()


# --- the secure base
def test_the_secure_base_has_its_keys_network_and_roles(account: Account, tmp_path: Path) -> None:
    environments, out = tmp_path / "environments", tmp_path / "out"
    environments.mkdir()
    for file in [*(ROOT / "environments").glob("*base.toml"), ROOT / "scripts/secure/cpu.toml"]:
        shutil.copy(file, environments)
    context = json.dumps({**FLAGS, "environments": str(environments)})
    variables = {**os.environ, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": context}
    succeed_in(ROOT, sys.executable, "app.py", environment=variables)
    iam, sagemaker = account.client("iam"), account.client("sagemaker")
    iam.create_role(RoleName="web", AssumeRolePolicyDocument=TRUST)  # which the file names
    for file in sorted((out / "assembly-cpu").glob("*.template.json")):  # data, then endpoint
        template = prepared(account, json.loads(file.read_text()))
        assert account.deploy(template, name=file.name.split(".")[0]) == "CREATE_COMPLETE"

    (one,) = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    name = one["EndpointConfigName"]
    config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
    capture = config["DataCaptureConfig"]
    key = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
    assert (capture["KmsKeyId"], config["KmsKeyId"]) == (f"{key}4", f"{key}1")
    buckets = [one["Name"] for one in account.client("s3").list_buckets()["Buckets"]]
    assert capture["DestinationS3Uri"].split("/")[2] in buckets

    (one,) = sagemaker.list_models()["Models"]
    model = sagemaker.describe_model(ModelName=one["ModelName"])
    assert model["EnableNetworkIsolation"] is True
    assert model["VpcConfig"]["SecurityGroupIds"] == ["sg-0a1b2c3d"]
    role = model["ExecutionRoleArn"].rpartition("/")[2]
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    keys = [one["Resource"] for one in document["Statement"] if one["Action"] == "kms:Decrypt"]
    assert keys == [f"{key}5"]

    assert len(iam.list_attached_role_policies(RoleName="web")["AttachedPolicies"]) == 1
    found = account.client("sns").list_subscriptions()["Subscriptions"]
    assert len({one["TopicArn"] for one in found}) == 2
