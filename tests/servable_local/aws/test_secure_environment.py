"""The secure base deployed: both its stacks, and what boto3 reads back."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.everything_on import FLAGS
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long

KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}],
}


def synthesised(folder: Path) -> dict[str, dict[str, Any]]:
    """{stack: its template} of the form on a CPU."""
    environments, out = folder / "environments", folder / "out"
    environments.mkdir()
    for file in [*(ROOT / "environments").glob("*base.toml"), ROOT / "scripts/secure/cpu.toml"]:
        shutil.copy(file, environments)
    context = json.dumps({**FLAGS, "environments": str(environments)})
    subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": context},
        check=True,
        capture_output=True,
        timeout=100,
    )
    files = (out / "assembly-cpu").glob("*.template.json")
    return {
        "data" if "data" in one.name else "endpoint": json.loads(one.read_text()) for one in files
    }


@pytest.fixture(scope="module")
def account(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> Account:
    """With what the file names and does not make: the bootstrap, a caller's role."""
    templates = synthesised(tmp_path_factory.mktemp("secure"))
    made = Account(embedded, launcher)
    bootstrap = templates["endpoint"]["Parameters"]["BootstrapVersion"]["Default"]
    made.client("ssm").put_parameter(Name=bootstrap, Value="30", Type="String")
    made.client("iam").create_role(RoleName="web", AssumeRolePolicyDocument=json.dumps(TRUST))
    for resource in templates["endpoint"]["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Model":
            resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = made.put_archive(b"secure")
    for name in ("data", "endpoint"):
        status = made.deploy(templates[name], name=name)
        events = made.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        reasons = [
            event["ResourceStatusReason"] for event in events if "ResourceStatusReason" in event
        ]
        assert status == "CREATE_COMPLETE", reasons
    return made


def config(account: Account) -> dict[str, Any]:
    sagemaker = account.client("sagemaker")
    (one,) = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    found: dict[str, Any] = sagemaker.describe_endpoint_config(
        EndpointConfigName=one["EndpointConfigName"]
    )
    return found


def test_the_environment_has_its_keys_network_and_roles(account: Account) -> None:
    s3 = account.client("s3")
    buckets = [one["Name"] for one in s3.list_buckets()["Buckets"]]
    bucket = config(account)["DataCaptureConfig"]["DestinationS3Uri"].split("/")[2]
    assert bucket in buckets
    found = config(account)
    assert (found["DataCaptureConfig"]["KmsKeyId"], found["KmsKeyId"]) == (f"{KEY}4", f"{KEY}1")

    sagemaker = account.client("sagemaker")
    (one,) = sagemaker.list_models()["Models"]
    found = sagemaker.describe_model(ModelName=one["ModelName"])
    assert (found["EnableNetworkIsolation"], found["VpcConfig"]["SecurityGroupIds"]) == (
        True,
        ["sg-0a1b2c3d"],
    )

    iam, sagemaker = account.client("iam"), account.client("sagemaker")
    (one,) = sagemaker.list_models()["Models"]
    arn = sagemaker.describe_model(ModelName=one["ModelName"])["ExecutionRoleArn"]
    role = arn.rpartition("/")[2]
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    keys = [one["Resource"] for one in document["Statement"] if one["Action"] == "kms:Decrypt"]
    assert keys == [f"{KEY}5"]
    found = account.client("iam").list_attached_role_policies(RoleName="web")
    assert len(found["AttachedPolicies"]) == 1
    found = account.client("sns").list_subscriptions()["Subscriptions"]
    assert len({one["TopicArn"] for one in found}) == 2
