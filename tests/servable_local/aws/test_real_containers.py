"""Real containers answer what is made with boto3 or SageMaker's SDK (v3): endpoints, and transform jobs.

What the SDK finds the local AWS by are the variables of `up`, as docs/local-aws.md says. JavaScript's SDK,
which package-lock.json has, asks an endpoint. AWS's own test of the 2.20 image, in our words, is
test/tensorflow/integration/inference/test_batch_transform.py in
https://github.com/aws/deep-learning-containers (2026-08-19): three files of one row each, by SageMaker's SDK.
"""

import functools
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import boto3
import psutil
import pytest
from botocore.exceptions import ClientError

from servable_local.aws import LocalAws, running
from tests.checkouts import ROOT, succeed_in
from tests.conformance.archives import MODELS, VARIABLES, plain
from tests.servable_handler.endpoints import packed
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST

pytestmark = pytest.mark.long
BUCKET = "models-and-tables"
ROWS = b'{"instances": [[1.0, 2.0]]}'
ANSWER = {"predictions": [[3.0, 6.0]]}
HANDLER = b"def handler(data, context): return data.read()[::-1], 'text/plain'\n"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    folder = tmp_path_factory.mktemp("packed")
    numbers = {"numbers": MODELS / "numbers"}
    code = {"code/inference.py": HANDLER}
    archives = {
        "plain": plain(folder / "plain.tar.gz"),
        "handled": packed(folder / "handled.tar.gz", numbers),
        "coded": packed(folder / "coded.tar.gz", numbers, handler=False, files=code),
        # In multi-model mode the versions lie at the root.
        "several/numbers": packed(folder / "several.tar.gz", {"2": MODELS / "numbers/02"}),
    }
    with running() as aws:
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        for name, archive in archives.items():
            s3.upload_file(str(archive), BUCKET, f"{name}.tar.gz")
        aws.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
        yield aws


@pytest.fixture
def session(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> boto3.Session:
    """The variables of `up`, and a session that is made of them."""
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return boto3.Session()


def created_model(
    session: boto3.Session, name: str, archive: str = "plain.tar.gz", **container: Any
) -> Any:
    from sagemaker.core.resources import Model
    from sagemaker.core.shapes import shapes

    members = {"image": IMAGE, "model_data_url": f"s3://{BUCKET}/{archive}"} | container
    return Model.create(
        model_name=name,
        primary_container=shapes.ContainerDefinition(**{"environment": VARIABLES} | members),
        execution_role_arn="arn:aws:iam::123456789012:role/role",
        session=session,
    )


def created_config(session: boto3.Session, name: str, **kind: Any) -> Any:
    """One instance of the model of this name."""
    from sagemaker.core.resources import EndpointConfig
    from sagemaker.core.shapes import shapes

    of = {"model_name": name, "instance_type": "ml.c5.xlarge", "initial_instance_count": 1}
    variants = [shapes.ProductionVariant(variant_name="primary", **of)]
    given = {"endpoint_config_name": name, "production_variants": variants, "session": session}
    return EndpointConfig.create(**given, **kind)


def created_endpoint(session: boto3.Session, name: str) -> Any:
    """An endpoint of the configuration of this name, once it is in service."""
    from sagemaker.core.resources import Endpoint

    endpoint = Endpoint.create(endpoint_name=name, endpoint_config_name=name, session=session)
    endpoint.wait_for_status("InService", poll=1, timeout=100)
    return endpoint


def asked(endpoint: Any, **more: Any) -> Any:
    """The endpoint's answer to two numbers."""
    answer = endpoint.invoke(body=ROWS, content_type="application/json", **more)
    return json.loads(answer.body.read())


@pytest.mark.usefixtures("session")
def test_the_sdk_makes_the_bucket_of_a_session_in_the_local_aws(aws: LocalAws) -> None:
    from sagemaker.core.helper.session_helper import Session

    name = Session(default_bucket="another-of-the-sdk").default_bucket()
    assert name in [bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]]


def test_the_sdk_asks_an_endpoint_as_javascript_s_does_and_updates_it_to_inference_code(
    aws: LocalAws, session: boto3.Session
) -> None:
    made = [created_model(session, "before"), created_config(session, "before")]
    made += [created_model(session, "after", "coded.tar.gz"), created_config(session, "after")]
    endpoint = created_endpoint(session, "before")
    assert asked(endpoint) == ANSWER
    ask = ["node", "-e", JAVASCRIPT, "before", ROWS.decode()]
    ran = succeed_in(ROOT, *ask, environment=aws.environment_over(os.environ))
    assert json.loads(ran.stdout) == ANSWER

    endpoint.endpoint_config_name = "after"
    endpoint.update()
    endpoint.wait_for_status("InService", poll=1, timeout=100)
    assert endpoint.invoke(body=b"abc", content_type="text/plain").body.read() == b"cba"
    for resource in (endpoint, *made):
        resource.delete()
    endpoint.wait_for_delete(poll=1, timeout=60)
    with pytest.raises(ClientError, match="Could not find endpoint"):
        endpoint.refresh()


JAVASCRIPT = """
const {SageMakerRuntimeClient, InvokeEndpointCommand} = require("@aws-sdk/client-sagemaker-runtime");
const [EndpointName, Body] = process.argv.slice(1);
new SageMakerRuntimeClient()
  .send(new InvokeEndpointCommand({EndpointName, Body, ContentType: "application/json"}))
  .then((answer) => process.stdout.write(answer.Body));
"""


def test_the_sdk_s_model_builder_deploys(
    aws: LocalAws, session: boto3.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sagemaker.core.helper.session_helper import Session
    from sagemaker.serve.model_builder import ModelBuilder

    builder = ModelBuilder(
        s3_model_data_url=f"s3://{BUCKET}/plain.tar.gz",
        image_uri=IMAGE,
        role_arn="arn:aws:iam::123456789012:role/role",
        env_vars=VARIABLES,
        instance_type="ml.c5.xlarge",
        sagemaker_session=Session(session, default_bucket=BUCKET),
    )
    every_second = functools.partialmethod(ModelBuilder._wait_for_endpoint, poll=1)  # for 30 s
    monkeypatch.setattr(ModelBuilder, "_wait_for_endpoint", every_second)
    model = builder.build(model_name="built")
    endpoint = builder.deploy(endpoint_name="built", initial_instance_count=1)
    assert asked(endpoint) == ANSWER
    endpoint.delete()
    model.delete()
    wait = {"EndpointName": "built", "WaiterConfig": {"Delay": 1, "MaxAttempts": 60}}
    aws.client("sagemaker").get_waiter("endpoint_deleted").wait(**wait)
    streams = aws.client("logs").describe_log_streams(logGroupName="/aws/sagemaker/Endpoints/built")
    (stream,) = streams["logStreams"]
    assert stream["logStreamName"].startswith("AllTraffic/i-")


def test_the_sdk_asks_a_serverless_endpoint(session: boto3.Session) -> None:
    """By the session's helpers: the shapes of 3.27 name a member as no service does, MemorySizeInMb."""
    from sagemaker.core.helper.session_helper import Session, production_variant
    from sagemaker.core.resources import Endpoint

    created_model(session, "serverless", "handled.tar.gz")
    size = {"MemorySizeInMB": 2048, "MaxConcurrency": 5}
    variants = [production_variant("serverless", serverless_inference_config=size)]
    make = Session(session, default_bucket=BUCKET).endpoint_from_production_variants
    make("serverless", variants, wait=False)
    endpoint = Endpoint.get("serverless", session=session)
    endpoint.wait_for_status("InService", poll=1, timeout=100)
    assert asked(endpoint) == ANSWER
    endpoint.delete()


def test_the_sdk_asks_an_asynchronous_endpoint(aws: LocalAws, session: boto3.Session) -> None:
    from sagemaker.core.shapes import shapes

    output = shapes.AsyncInferenceOutputConfig(s3_output_path=f"s3://{BUCKET}/out")
    created_model(session, "async")
    config = shapes.AsyncInferenceConfig(output_config=output)
    created_config(session, "async", async_inference_config=config)
    endpoint = created_endpoint(session, "async")
    put(aws, "in/rows.json", ROWS)
    where = f"s3://{BUCKET}/in/rows.json"
    answer = endpoint.invoke_async(input_location=where, content_type="application/json")
    key = answer.output_location.removeprefix(f"s3://{BUCKET}/")
    waiter = aws.client("s3").get_waiter("object_exists")
    waiter.wait(Bucket=BUCKET, Key=key, WaiterConfig={"Delay": 1})
    assert json.loads(read(aws, key)) == ANSWER
    endpoint.delete()


def test_the_sdk_asks_a_model_of_a_multi_model_endpoint(session: boto3.Session) -> None:
    created_model(session, "several", "several/", mode="MultiModel", environment={})
    created_config(session, "several")
    endpoint = created_endpoint(session, "several")
    assert asked(endpoint, target_model="numbers.tar.gz") == ANSWER
    endpoint.delete()


# --- transform jobs
def create_model(aws: LocalAws, name: str, archive: str = "plain") -> None:
    role = aws.client("iam").get_role(RoleName="role")["Role"]["Arn"]
    data = {"ModelDataUrl": f"s3://{BUCKET}/{archive}.tar.gz", "Environment": VARIABLES}
    create = aws.client("sagemaker").create_model
    create(ModelName=name, ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE, **data})


def rested(aws: LocalAws, name: str) -> dict[str, Any]:
    describe = functools.partial(
        aws.client("sagemaker").describe_transform_job, TransformJobName=name
    )
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


def test_the_sdk_passes_aws_s_own_test_of_the_image(aws: LocalAws, session: boto3.Session) -> None:
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
    put(aws, "killed/a.csv", b"".join(b"%d,1\n" % number for number in range(2000)))
    job = {"BatchStrategy": "SingleRecord", "MaxConcurrentTransforms": 4}
    until(lambda: not aws.client("sagemaker").list_endpoints()["Endpoints"], 60)  # nor a container
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
    assert firsts == [3.0 * number for number in range(2000)]


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
