"""SageMaker's SDK (v3) deploys, asks, updates and deletes in the local AWS, where containers answer.

What it finds the local AWS by are the variables of `up`, as docs/local-aws.md says. Batch transform by the
SDK is in test_batch_transform.py. JavaScript's SDK, which package-lock.json has, asks an endpoint.
"""

import functools
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from servable_local.aws import LocalAws, running
from tests.conformance.archives import MODELS, VARIABLES, plain
from tests.servable_handler.endpoints import packed
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST

pytestmark = pytest.mark.long
BUCKET = "models-of-the-sdk"
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


@pytest.fixture(autouse=True)
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

    variant = shapes.ProductionVariant(
        variant_name="primary",
        model_name=name,
        instance_type="ml.c5.xlarge",
        initial_instance_count=1,
    )
    return EndpointConfig.create(
        endpoint_config_name=name, production_variants=[variant], session=session, **kind
    )


def created_endpoint(session: boto3.Session, name: str) -> Any:
    """An endpoint of the configuration of this name, once it is in service."""
    from sagemaker.core.resources import Endpoint

    endpoint = Endpoint.create(endpoint_name=name, endpoint_config_name=name, session=session)
    endpoint.wait_for_status("InService", poll=1, timeout=100)
    return endpoint


def asked(endpoint: Any, **more: Any) -> Any:
    """The endpoint's answer to two numbers."""
    return json.loads(
        endpoint.invoke(body=ROWS, content_type="application/json", **more).body.read()
    )


def test_a_session_with_a_bucket_of_its_own_makes_it_in_the_local_aws(aws: LocalAws) -> None:
    from sagemaker.core.helper.session_helper import Session

    name = Session(default_bucket="another-of-the-sdk").default_bucket()
    assert name in [bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]]


def test_an_endpoint_is_asked_also_by_javascript_s_sdk_and_updated_to_inference_code(
    aws: LocalAws, session: boto3.Session
) -> None:
    made = [created_model(session, "before"), created_config(session, "before")]
    made += [created_model(session, "after", "coded.tar.gz"), created_config(session, "after")]
    endpoint = created_endpoint(session, "before")
    assert asked(endpoint) == ANSWER
    ask = ["node", "-e", JAVASCRIPT, "before", ROWS.decode()]
    environment = aws.environment_over(os.environ)
    ran = subprocess.run(ask, capture_output=True, text=True, env=environment, check=True)
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


def test_a_model_builder_deploys(
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
    wait = {"Delay": 1, "MaxAttempts": 60}
    aws.client("sagemaker").get_waiter("endpoint_deleted").wait(
        EndpointName="built", WaiterConfig=wait
    )
    streams = aws.client("logs").describe_log_streams(logGroupName="/aws/sagemaker/Endpoints/built")
    (stream,) = streams["logStreams"]
    assert stream["logStreamName"].startswith("AllTraffic/i-")


def test_a_serverless_endpoint_is_asked(session: boto3.Session) -> None:
    """By the session's helpers: the shapes of 3.27 name a member as no service does, MemorySizeInMb."""
    from sagemaker.core.helper.session_helper import Session, production_variant
    from sagemaker.core.resources import Endpoint

    created_model(session, "serverless", "handled.tar.gz")
    size = {"MemorySizeInMB": 2048, "MaxConcurrency": 5}
    Session(session, default_bucket=BUCKET).endpoint_from_production_variants(
        "serverless",
        [production_variant("serverless", serverless_inference_config=size)],
        wait=False,
    )
    endpoint = Endpoint.get("serverless", session=session)
    endpoint.wait_for_status("InService", poll=1, timeout=100)
    assert asked(endpoint) == ANSWER
    endpoint.delete()


def test_an_asynchronous_endpoint_is_asked(aws: LocalAws, session: boto3.Session) -> None:
    from sagemaker.core.shapes import shapes

    output = shapes.AsyncInferenceOutputConfig(s3_output_path=f"s3://{BUCKET}/out")
    created_model(session, "async")
    created_config(
        session, "async", async_inference_config=shapes.AsyncInferenceConfig(output_config=output)
    )
    endpoint = created_endpoint(session, "async")
    s3 = aws.client("s3")
    s3.put_object(Bucket=BUCKET, Key="in/rows.json", Body=ROWS)
    where = endpoint.invoke_async(
        input_location=f"s3://{BUCKET}/in/rows.json", content_type="application/json"
    ).output_location
    key = where.removeprefix(f"s3://{BUCKET}/")
    s3.get_waiter("object_exists").wait(Bucket=BUCKET, Key=key, WaiterConfig={"Delay": 1})
    assert json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == ANSWER
    endpoint.delete()


def test_a_model_of_a_multi_model_endpoint_is_asked(session: boto3.Session) -> None:
    created_model(session, "several", "several/", mode="MultiModel", environment={})
    created_config(session, "several")
    endpoint = created_endpoint(session, "several")
    assert asked(endpoint, target_model="numbers.tar.gz") == ANSWER
    endpoint.delete()
