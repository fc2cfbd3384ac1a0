"""Transform jobs with real containers, and AWS's own test of the 2.20 image in our words.

Source: test/tensorflow/integration/inference/test_batch_transform.py in
https://github.com/aws/deep-learning-containers (2026-08-19): three files of one row each, by SageMaker's SDK.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import psutil
import pytest

from servable_local.aws import LocalAws, running
from tests.conformance.archives import MODELS, VARIABLES, plain
from tests.servable_handler.endpoints import packed
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST

pytestmark = pytest.mark.long
BUCKET = "tables"
ROWS = 2000


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    folder = tmp_path_factory.mktemp("packed")
    with running() as aws:
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.upload_file(str(plain(folder / "plain.tar.gz")), BUCKET, "plain.tar.gz")
        handled = packed(folder / "handled.tar.gz", {"numbers": MODELS / "numbers"})
        s3.upload_file(str(handled), BUCKET, "handled.tar.gz")
        aws.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
        yield aws


@pytest.fixture
def session(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> boto3.Session:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return boto3.Session()


def create_model(aws: LocalAws, name: str, archive: str = "plain") -> None:
    role = aws.client("iam").get_role(RoleName="role")["Role"]["Arn"]
    data = {"ModelDataUrl": f"s3://{BUCKET}/{archive}.tar.gz", "Environment": VARIABLES}
    aws.client("sagemaker").create_model(
        ModelName=name, ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE, **data}
    )


def rested(aws: LocalAws, name: str) -> dict[str, Any]:
    describe = partial(aws.client("sagemaker").describe_transform_job, TransformJobName=name)
    until(lambda: describe()["TransformJobStatus"] not in ("InProgress", "Stopping"), 100)
    return dict(describe())


def put(aws: LocalAws, key: str, body: bytes) -> None:
    aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)


def create_job(aws: LocalAws, name: str, accept: str = "text/csv", **more: Any) -> None:
    """A job of the model of this name over the lines of NAME/ to NAME-out/."""
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{name}/"}
    aws.client("sagemaker").create_transform_job(
        TransformJobName=name,
        ModelName=name,
        TransformInput={
            "DataSource": {"S3DataSource": source}, "ContentType": "text/csv", "SplitType": "Line",
        },
        TransformOutput={
            "S3OutputPath": f"s3://{BUCKET}/{name}-out", "Accept": accept, "AssembleWith": "Line",
        },
        TransformResources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        **more,
    )  # fmt: skip


def log(aws: LocalAws) -> str:
    events = aws.client("logs").filter_log_events(logGroupName="/aws/sagemaker/TransformJobs")
    return "\n".join(event["message"] for event in events["events"])


def read(aws: LocalAws, key: str) -> bytes:
    body: bytes = aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return body


def test_aws_s_own_test_of_the_image_passes(aws: LocalAws, session: boto3.Session) -> None:
    from sagemaker.core.resources import TransformJob
    from sagemaker.core.shapes import shapes

    create_model(aws, "own")
    rows = [[1.0, 2.0], [4.0, 5.0], [7.0, 8.0]]
    for number, row in enumerate(rows):
        put(aws, f"own/row_{number}.json", json.dumps({"instances": [row]}).encode())
    source = shapes.TransformS3DataSource(s3_data_type="S3Prefix", s3_uri=f"s3://{BUCKET}/own/")
    job = TransformJob.create(
        transform_job_name="own",
        model_name="own",
        transform_input=shapes.TransformInput(
            data_source=shapes.TransformDataSource(s3_data_source=source),
            content_type="application/json", split_type="None"),
        transform_output=shapes.TransformOutput(
            s3_output_path=f"s3://{BUCKET}/own-out/", accept="application/json", assemble_with="None"),
        transform_resources=shapes.TransformResources(
            instance_type="ml.c5.xlarge", instance_count=1),
        session=session,
    )  # fmt: skip
    rested(aws, "own")
    job.refresh()
    assert job.transform_job_status == "Completed"
    answers = [json.loads(read(aws, f"own-out/row_{n}.json.out"))["predictions"] for n in range(3)]
    assert answers == [[[3 * x for x in row]] for row in rows]


def test_a_killed_container_loses_no_row_and_answers_none_twice(aws: LocalAws) -> None:
    create_model(aws, "killed")
    put(aws, "killed/a.csv", b"".join(b"%d,1\n" % number for number in range(ROWS)))
    job = {"BatchStrategy": "SingleRecord", "MaxConcurrentTransforms": 4}
    create_job(aws, "killed", "application/json", **job)
    kill_container(aws)
    assert rested(aws, "killed")["TransformJobStatus"] == "Completed"
    # The image's answers have ends of lines in them.
    text = read(aws, "killed-out/a.csv.out").decode()
    decoder, at, firsts = json.JSONDecoder(), 0, []
    while at < len(text):
        answer, at = decoder.raw_decode(text, at)
        firsts.append(answer["predictions"][0][0])
        at += len(text[at:]) - len(text[at:].lstrip())
    assert firsts == [3.0 * number for number in range(ROWS)]


def kill_container(aws: LocalAws) -> None:
    """The supervisor of the job's container, once it serves."""
    describe = aws.client("sagemaker").describe_transform_job
    until(lambda: "TransformStartTime" in describe(TransformJobName="killed"))
    time.sleep(0.5)
    children = psutil.Process(aws.pid).children()
    (container,) = (one for one in children if "servable_local.container" in one.cmdline())
    os.kill(container.pid, signal.SIGKILL)


def test_the_handler_answers_each_row_by_a_line_that_joins(aws: LocalAws) -> None:
    create_model(aws, "csv", "handled")
    put(aws, "csv/a.csv", b"row-0,1,2\nrow-1,3,4\nrow-2,5,6\n")
    joined = {"InputFilter": "$[1:]", "JoinSource": "Input", "OutputFilter": "$[0,-2:]"}
    create_job(aws, "csv", DataProcessing=joined)
    assert rested(aws, "csv")["TransformJobStatus"] == "Completed"
    lines = b"row-0,3.0,6.0\nrow-1,9.0,12.0\nrow-2,15.0,18.0\n"
    assert read(aws, "csv-out/a.csv.out") == lines


def test_without_code_the_image_s_one_answer_for_many_rows_does_not_join(aws: LocalAws) -> None:
    create_model(aws, "bare")
    put(aws, "bare/a.csv", b"1,2\n3,4\n")
    create_job(aws, "bare", DataProcessing={"JoinSource": "Input"})
    assert rested(aws, "bare")["TransformJobStatus"] == "Failed"
    # As https://github.com/aws/sagemaker-tensorflow-serving-container/issues/154 quotes it.
    assert 'Failed to parse output from the algorithm as CSV: bare "' in log(aws)


def test_the_log_says_what_was_wrong_with_a_request(aws: LocalAws) -> None:
    create_model(aws, "wrong", "handled")
    put(aws, "wrong/a.csv", b"1,2\n3,4\nfive,6\n")
    create_job(aws, "wrong")
    rested(aws, "wrong")
    assert 'x: holds "five", no number' in log(aws).replace("\\", "")
