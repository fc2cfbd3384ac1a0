"""A project with a batch, and its model in the stack's place in the local AWS: as `cdk deploy` leaves it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from servable.main import main
from servable_local.aws import LocalAws
from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.conformance.archives import MODELS, VARIABLES
from tests.servable_handler.endpoints import packed
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST

Servable = Callable[..., tuple[int, str, str]]
BUCKET = f"tables-{ACCOUNT}"
FILE = f"""\
account = "{ACCOUNT}"
region = "{REGION}"
production = false
[endpoint]
name = "numbers"
[models.numbers]
saved_model = "model"
handler = "servable"
tensorflow = "2.20"
[variants.primary]
model = "numbers"
instance_type = "ml.c5.xlarge"
[batch.nightly]
model = "numbers"
instance_type = "ml.c5.xlarge"
input = "s3://{BUCKET}/in/"
output = "s3://{BUCKET}/out/"
content_type = "text/csv"
max_concurrent = 2
"""


def project(folder: Path, account: str = ACCOUNT) -> Path:
    """A project whose environment `rows` has the batch `nightly`; its model answers three times a row."""
    (folder / "environments").mkdir(parents=True)
    (folder / "environments" / "rows.toml").write_text(FILE.replace(ACCOUNT, account))
    shutil.copytree(MODELS / "numbers", folder / "model")
    return folder


def of_this_folder(capsys: pytest.CaptureFixture[str]) -> Servable:
    """`servable batch rows` in the working folder: call("--limit", "5") is exit code, output, errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["batch", "rows", *arguments])
        output, errors = capsys.readouterr()
        return int(ended.value.code or 0), output, errors

    return call


class DeployedBatch:
    """The batch `nightly` of such a project in a local AWS."""

    def __init__(
        self, root: Path, aws: LocalAws, *, account: str = ACCOUNT, variables: Mapping[str, str] = VARIABLES
    ) -> None:  # fmt: skip
        self.root, self.aws, self.account = project(root, account), aws, account
        self.bucket = BUCKET.replace(ACCOUNT, account)
        self.s3 = self.client("s3")
        self.s3.create_bucket(Bucket=self.bucket)
        archive = packed(root / "handled.tar.gz", {"numbers": MODELS / "numbers"})
        self.s3.upload_file(str(archive), self.bucket, "handled.tar.gz")
        role = self.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
        uri = f"s3://{self.bucket}/handled.tar.gz"
        container = {"Image": IMAGE, "ModelDataUrl": uri, "Environment": {**variables}}
        properties = {"ExecutionRoleArn": role["Role"]["Arn"], "PrimaryContainer": container}
        template = {
            "Resources": {"Model": {"Type": "AWS::SageMaker::Model", "Properties": properties}},
            "Outputs": {"BatchNightlyModel": {"Value": {"Fn::GetAtt": ["Model", "ModelName"]}}},
        }
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(StackName="rows-endpoint", TemplateBody=json.dumps(template))
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName="rows-endpoint", WaiterConfig={"Delay": 0.1, "MaxAttempts": 100}
        )

    def client(self, service: str) -> Any:
        return self.aws.client(service, account=self.account)

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def read(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def keys(self, prefix: str) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        return [item["Key"] for item in listed]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`servable batch rows …`; it finds the local AWS as a shell's variables say."""
        return subprocess.Popen(
            [sys.executable, "-m", "servable", "batch", "rows", *arguments],
            cwd=self.root,
            env=self.aws.environment_over(os.environ, account=self.account),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=200)
        return process.returncode, output, errors

    def job(self) -> dict[str, Any] | None:
        """The newest job, as DescribeTransformJob shows it; None before the first."""
        sagemaker = self.client("sagemaker")
        for job in sagemaker.list_transform_jobs()["TransformJobSummaries"]:
            name = job["TransformJobName"]
            return dict(sagemaker.describe_transform_job(TransformJobName=name))
        return None
