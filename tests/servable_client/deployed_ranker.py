"""examples/ranker with the handler, deployed to a local AWS by CloudFormation."""

import json
import time
from pathlib import Path

from servable_local.aws import LocalAws
from tests.servable_handler.endpoints import RANKER, packed
from tests.servable_local.aws.deployed_templates import serving

NAME = "ranker"


def deploy(aws: LocalAws, folder: Path) -> None:
    """Returns once the endpoint `ranker` is in service."""
    archive = packed(folder / "model.tar.gz", {"ranker": RANKER / "model"})
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="archives")
    s3.upload_file(str(archive), "archives", "model.tar.gz")
    template = serving(
        "s3://archives/model.tar.gz", variables={"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}
    )
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(StackName="stack", TemplateBody=json.dumps(template))
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        status = cloudformation.describe_stacks(StackName="stack")["Stacks"][0]["StackStatus"]
        if status == "CREATE_COMPLETE":
            return
        if not status.endswith("_IN_PROGRESS"):
            break
        time.sleep(0.1)
    raise AssertionError(f"the stack is {status}")
