"""One deployed endpoint, and every kind of client: ours, boto3's, SageMaker's SDK, the AWS CLI."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from servable_client import Endpoint, EndpointNotFoundError, JobFailedError, RefusedError
from servable_local.aws import LocalAws, running
from tests.servable_handler.endpoints import RANKER, golden, packed
from tests.servable_local.aws.deployed_templates import serving

pytestmark = pytest.mark.long

NAME = "ranker"
ARRAYS, ANSWER = golden()
REQUEST = (RANKER / "golden" / "request-columnar.json").read_bytes()
PATIENT = {"Delay": 1, "MaxAttempts": 100}
CLOSE = 1e-5  # the last bits of a float32 differ between kinds of CPU


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """With the endpoint `ranker`: examples/ranker with the handler, deployed by CloudFormation."""
    folder = tmp_path_factory.mktemp("deployed")
    archive = packed(folder / "model.tar.gz", {"ranker": RANKER / "model"})
    variables = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}
    template = serving("s3://archives/model.tar.gz", variables=variables)
    with running() as embedded:
        embedded.client("s3").create_bucket(Bucket="archives")
        embedded.client("s3").upload_file(str(archive), "archives", "model.tar.gz")
        cloudformation = embedded.client("cloudformation")
        cloudformation.create_stack(StackName="stack", TemplateBody=json.dumps(template))
        waiter = cloudformation.get_waiter("stack_create_complete")
        waiter.wait(StackName="stack", WaiterConfig=PATIENT)
        yield embedded


@pytest.fixture
def environment(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the shell of somebody who pasted what `servable local up` prints."""
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def ranker(environment: None) -> Iterator[Endpoint]:
    with Endpoint(NAME) as endpoint:
        yield endpoint


def close(found: Any) -> None:
    np.testing.assert_allclose(np.ravel(found), np.ravel(ANSWER), atol=CLOSE)


def test_our_client_gets_tensorflows_own_answer(ranker: Endpoint) -> None:
    cases: list[Any] = [None, "protobuf", "npz", "json"]
    for form in cases:
        close(ranker.predict(ARRAYS, format=form).only)
    batch = {name: np.repeat(array, 30, axis=0) for name, array in ARRAYS.items()}
    whole, split = ranker.predict(batch)["prob"], ranker.predict(batch, split=7)["prob"]
    np.testing.assert_allclose(whole, split, atol=CLOSE)
    found = ranker.predict(ARRAYS)
    assert {name: array.dtype for name, array in found.items()} == {"prob": np.dtype("f4")}
    assert ranker.predict(ARRAYS, variant="primary", version=1).variant == "primary"


def test_what_is_not_there_or_has_a_wrong_shape_has_its_error(ranker: Endpoint) -> None:
    cases: list[dict[str, Any]] = [{"variant": "nobody"}, {"version": 9}, {"model": "nobody"}]
    for chosen in cases:
        with pytest.raises(EndpointNotFoundError):
            ranker.predict(ARRAYS, **chosen)
    with pytest.raises(RefusedError, match="feat_ids"):
        ranker.predict(feat_ids=np.zeros((1, 3), np.int64), feat_vals=np.zeros((1, 39), np.float32))


def test_plain_boto3_gets_an_answer(environment: None) -> None:
    client = boto3.client("sagemaker-runtime")
    answer = client.invoke_endpoint(EndpointName=NAME, ContentType="application/json", Body=REQUEST)
    close(json.loads(answer["Body"].read())["outputs"])


def test_sagemakers_own_client_gets_an_answer(aws: LocalAws, environment: None) -> None:
    """The `sagemaker` SDK, version 3: the resource classes of sagemaker.core."""
    resources = pytest.importorskip("sagemaker.core.resources")
    told = aws.environment()
    session = boto3.session.Session(
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
        region_name=told["AWS_REGION"],
    )
    region = told["AWS_REGION"]
    endpoint = resources.Endpoint.get(endpoint_name=NAME, session=session, region=region)
    answer = endpoint.invoke(
        body=REQUEST, content_type="application/json", session=session, region=told["AWS_REGION"]
    )
    close(json.loads(answer.body.read())["outputs"])


def test_the_aws_cli_gets_an_answer(aws: LocalAws, tmp_path: Path) -> None:
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = shutil.which("aws", path=here)
    if command is None:
        pytest.skip("the AWS CLI is not installed here")
    ran = subprocess.run(
        [
            command, "sagemaker-runtime", "invoke-endpoint", "--endpoint-name", NAME,
            "--content-type", "application/json",
            "--body", f"fileb://{RANKER / 'golden' / 'request-columnar.json'}",
            str(tmp_path / "answer.json"),
        ],
        env=aws.environment_over(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    close(json.loads((tmp_path / "answer.json").read_text())["outputs"])


@pytest.fixture(scope="module")
def queue(aws: LocalAws) -> str:
    """The same model behind an asynchronous endpoint."""
    reason = "this embedded AWS has no queues"
    pytest.importorskip("servable_local.aws.sagemaker.stored_invocations", reason=reason)
    sagemaker = aws.client("sagemaker")
    aws.client("s3").create_bucket(Bucket="queue")
    name = sagemaker.describe_endpoint(EndpointName=NAME)["EndpointConfigName"]
    config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
    (variant,) = config["ProductionVariants"]
    sagemaker.create_endpoint_config(
        EndpointConfigName="queue", ProductionVariants=[variant],
        AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": "s3://queue/answers",
                                               "S3FailurePath": "s3://queue/failures"}},
    )  # fmt: skip
    sagemaker.create_endpoint(EndpointName="queue", EndpointConfigName="queue")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="queue", WaiterConfig=PATIENT)
    return "queue"


@pytest.fixture
def queued(queue: str, environment: None) -> Iterator[Endpoint]:
    with Endpoint(queue, upload_to="s3://queue/requests/") as endpoint:
        yield endpoint


def test_a_job_ends_with_tensorflows_answer_or_in_the_handlers_words(queued: Endpoint) -> None:
    close(queued.submit(ARRAYS).result(timeout_seconds=100)["prob"])
    feat_vals = np.zeros((1, 39), np.float32)
    job = queued.submit(feat_ids=np.zeros((1, 3), np.int64), feat_vals=feat_vals)
    with pytest.raises(JobFailedError, match="feat_ids"):
        job.result(timeout_seconds=100)
