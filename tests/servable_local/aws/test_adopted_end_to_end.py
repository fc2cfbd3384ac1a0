"""An endpoint made by hand, taken over by the commands of docs/adopting.md, typed; real containers answer."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from servable_local.aws import LocalAws, running
from servable_local.aws.local_aws import ACCOUNT
from tests.checkouts import PATH, ROOT, Ran, bootstrapped, run_in
from tests.docs.outputs import shown
from tests.servable_local.aws.live_endpoints import IMAGE, archive, page_blocks
from tests.servable_local.aws.local_account import TRUST

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
BODY = ROOT / "examples" / "ranker" / "golden" / "request-rows.json"


class Shell:
    """A folder, and a shell whose credentials are the local AWS's."""

    def __init__(self, folder: Path, aws: LocalAws) -> None:
        self.folder, self.aws = folder, aws
        self.environment = aws.environment_over({**os.environ, "PATH": PATH})

    def type(self, line: str) -> Ran:
        return run_in(
            self.folder, "sh", "-c", line, environment=self.environment, timeout_seconds=200
        )

    def done(self, line: str) -> Ran:
        ran = self.type(line)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The endpoint ranker by boto3, with data capture; it has answered three requests."""
    folder = tmp_path_factory.mktemp("adopting")
    shutil.copy(BODY, folder / "request.json")
    with running() as aws:
        bootstrapped(aws)
        s3, sagemaker = aws.client("s3"), aws.client("sagemaker")
        s3.create_bucket(Bucket="team")
        s3.put_object(Bucket="team", Key="run-7/model.tar.gz", Body=archive())
        aws.client("iam").create_role(RoleName="sagemaker", AssumeRolePolicyDocument=TRUST)
        sagemaker.create_model(
            ModelName="ranker-1",
            ExecutionRoleArn=f"arn:aws:iam::{ACCOUNT}:role/sagemaker",
            PrimaryContainer={"Image": IMAGE, "ModelDataUrl": "s3://team/run-7/model.tar.gz"},
        )
        variant = {"VariantName": "AllTraffic", "ModelName": "ranker-1",
                   "InstanceType": "ml.c5.xlarge", "InitialInstanceCount": 1}  # fmt: skip
        sagemaker.create_endpoint_config(
            EndpointConfigName="ranker-1",
            ProductionVariants=[variant],
            DataCaptureConfig={
                "EnableCapture": True, "InitialSamplingPercentage": 100,
                "DestinationS3Uri": "s3://team/captured",
                "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]})  # fmt: skip
        sagemaker.create_endpoint(EndpointName="ranker", EndpointConfigName="ranker-1")
        sagemaker.get_waiter("endpoint_in_service").wait(
            EndpointName="ranker", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        for _ in range(3):
            aws.client("sagemaker-runtime").invoke_endpoint(
                EndpointName="ranker", Body=BODY.read_bytes(), ContentType="application/json"
            )
        yield Shell(folder, aws)


def test_four_commands_lead_from_a_live_endpoint_to_a_verified_answer(shell: Shell) -> None:
    shell.done("servable init --from-endpoint ranker --name staging --endpoint-name ranker-2 "
               "--request request.json")  # fmt: skip
    plan = shell.type("servable plan staging --adopt ranker")
    (page,) = (one for one in shown() if "--adopt" in one.command)
    assert page.holds(plan.stdout.rstrip().splitlines()), plan.stdout
    shell.done("cdk deploy 'staging/*' --require-approval never")
    assert "as deployed" in shell.done("servable verify staging").stdout


def test_captured_requests_are_answered_as_before(shell: Shell) -> None:
    shell.done("servable init --from-endpoint ranker --name again --endpoint-name ranker-3")
    ran = shell.done("servable replay again --captured s3://team/captured/ranker --as-fast --json")
    compared = json.loads(ran.stdout)["comparison"]
    assert (compared["compared"] >= 3, compared["differing_rows"]) == (True, 0)


def test_the_commands_of_an_import_take_the_endpoint_over(shell: Shell) -> None:
    sagemaker = shell.aws.client("sagemaker")
    created = sagemaker.describe_endpoint(EndpointName="ranker")["CreationTime"]
    shell.done("servable init --from-endpoint ranker --name prod --request request.json")
    for name, text in zip(("template", "resources"), page_blocks("json", "Import it"), strict=True):
        text = text.replace("123456789012", ACCOUNT).replace("team-models", "team")
        (shell.folder / f"{name}.json").write_text(text)
    for block in page_blocks("sh", "Import it"):
        block = block.replace("\\\n", "").replace("deploy", "deploy --require-approval never")
        for line in block.splitlines():
            if "deregister" not in line:  # this endpoint does not scale
                shell.done(line)
    live = sagemaker.describe_endpoint(EndpointName="ranker")
    assert (live["CreationTime"], live["EndpointStatus"]) == (created, "InService")
