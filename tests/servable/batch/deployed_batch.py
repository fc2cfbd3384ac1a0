"""A project with a batch, and its model in the stack's place in the local AWS: as `cdk deploy` leaves it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from servable_local.aws import LocalAws
from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.conformance.archives import MODELS, VARIABLES
from tests.servable_handler.endpoints import packed
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST

BUCKET = "tables"
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


def project(folder: Path) -> Path:
    """A project whose environment `rows` has the batch `nightly`; its model answers three times a row."""
    (folder / "environments").mkdir(parents=True)
    (folder / "environments" / "rows.toml").write_text(FILE)
    shutil.copytree(MODELS / "numbers" / "1", folder / "model" / "1")
    return folder


class DeployedBatch:
    """The batch `nightly` of such a project in a local AWS."""

    def __init__(self, root: Path, aws: LocalAws) -> None:
        self.root, self.aws = project(root), aws
        self.s3 = aws.client("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        archive = packed(root / "handled.tar.gz", {"numbers": MODELS / "numbers"})
        self.s3.upload_file(str(archive), BUCKET, "handled.tar.gz")
        role = aws.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
        container = {"Image": IMAGE, "ModelDataUrl": f"s3://{BUCKET}/handled.tar.gz"}
        properties = {
            "ExecutionRoleArn": role["Role"]["Arn"],
            "PrimaryContainer": container | {"Environment": VARIABLES},
        }
        name = {"Value": {"Fn::GetAtt": ["Model", "ModelName"]}}
        template = {
            "Resources": {"Model": {"Type": "AWS::SageMaker::Model", "Properties": properties}},
            "Outputs": {"BatchNightlyModel": name},
        }
        cloudformation = aws.client("cloudformation")
        cloudformation.create_stack(StackName="rows-endpoint", TemplateBody=json.dumps(template))
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName="rows-endpoint", WaiterConfig={"Delay": 0.1, "MaxAttempts": 100}
        )

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def read(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    def keys(self, prefix: str) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [item["Key"] for item in listed]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`servable batch rows …`; it finds the local AWS as a shell's variables say."""
        return subprocess.Popen(
            [sys.executable, "-m", "servable", "batch", "rows", *arguments],
            cwd=self.root,
            env=self.aws.environment_over(os.environ),
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
        sagemaker = self.aws.client("sagemaker")
        jobs = sagemaker.list_transform_jobs()["TransformJobSummaries"]
        if not jobs:
            return None
        shown: dict[str, Any] = sagemaker.describe_transform_job(
            TransformJobName=jobs[0]["TransformJobName"]
        )
        return shown
