"""What a caller of InvokeEndpoint sends and gets."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account


@pytest.fixture(scope="module")
def ranker(embedded: LocalAws, launcher: Launcher) -> Account:
    """One for all who only ask."""
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"a")))
    return account


def _invoke(account: Account, body: bytes = b"x", **more: str) -> Any:
    runtime = account.client("sagemaker-runtime")
    return runtime.invoke_endpoint(EndpointName="ranker", Body=body, **more)


def _error(account: Account, body: bytes = b"x", **more: str) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        _invoke(account, body, **more)
    return dict(caught.value.response)


def test_the_container_gets_the_request_and_the_caller_its_answer(ranker: Account) -> None:
    body = bytes(range(256))
    answer = json.loads(_invoke(ranker, body)["Body"].read())
    assert answer["body"].encode("latin-1") == body
    assert _invoke(ranker)["ContentType"] == "application/json"
    assert _invoke(ranker)["CustomAttributes"] == "from=container"
    assert _invoke(ranker)["InvokedProductionVariant"] == "primary"

    answer = json.loads(_invoke(ranker, b"x", InferenceId="one")["Body"].read())
    headers = {key.lower(): value for key, value in answer["headers"].items()}
    assert headers["x-amzn-sagemaker-inference-id"] == "one"


@pytest.mark.parametrize(
    ("argument", "header"),
    [
        ("ContentType", "Content-Type"),
        ("Accept", "Accept"),
        ("CustomAttributes", "X-Amzn-SageMaker-Custom-Attributes"),
    ],
)
def test_the_container_gets_the_callers_header(ranker: Account, argument: str, header: str) -> None:
    answer = json.loads(_invoke(ranker, b"x", **{argument: "text/csv"})["Body"].read())
    assert {key.lower(): v for key, v in answer["headers"].items()}[header.lower()] == "text/csv"


@pytest.fixture(scope="module")
def refusing(embedded: LocalAws, launcher: Launcher) -> Account:
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"a"), variables={"STATUS": "400"}))
    return account


def test_a_containers_refusal_is_a_model_error(refusing: Account) -> None:
    assert _error(refusing)["Error"]["Code"] == "ModelError"
    assert _error(refusing)["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert _error(refusing)["OriginalStatusCode"] == 400
    assert _error(refusing)["OriginalMessage"] == "the model says no"
    assert _error(refusing)["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/ranker")


def test_a_body_has_at_most_6_291_456_bytes(ranker: Account) -> None:
    assert _invoke(ranker, b"x" * 6_291_456)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert _error(ranker, b"x" * 6_291_457)["Error"]["Code"] == "ValidationError"


def test_an_endpoint_whose_file_acknowledges_more_takes_that_and_no_more(ranker: Account) -> None:
    sagemaker = ranker.client("sagemaker")
    arn = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointArn"]
    name = "servable:request-bytes"
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": name, "Value": "6291457"}])
    try:
        assert _invoke(ranker, b"x" * 6_291_457)["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert "6291457" in _error(ranker, b"x" * 6_291_458)["Error"]["Message"]
    finally:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=[name])


def test_what_sagemaker_refuses_is_said(ranker: Account) -> None:
    said = _error(ranker, b"x", CustomAttributes="a" * 1025)["Error"]
    assert said["Code"] == "ValidationError"
    assert "Value at 'customAttributes' failed to satisfy constraint" in said["Message"]
    said = _error(ranker, b"x", CustomAttributes="a" * 1025, InferenceId="i" * 65)["Error"]
    assert said["Message"].startswith("2 validation errors detected: ")

    said = _error(ranker, TargetVariant="absent")["Error"]
    wanted = f"Variant absent not found for endpoint ranker of account {ranker.number}."
    assert said == {"Code": "ValidationError", "Message": wanted}
    assert (
        "not a multi-model endpoint" in _error(ranker, TargetModel="a.tar.gz")["Error"]["Message"]
    )


class Queue:
    """The asynchronous endpoint `ranker`, and the synchronous one of another account."""

    def __init__(self, account: Account, other: Account) -> None:
        self.account, self.other = account, other
        self.bucket = f"archives-{account.number}"
        template = serving(account.put_archive(b"a"))
        paths = {
            "S3OutputPath": f"s3://{self.bucket}/answers",
            "S3FailurePath": f"s3://{self.bucket}/failures",
        }
        config = template["Resources"]["Config"]["Properties"]
        config["AsyncInferenceConfig"] = {"OutputConfig": paths}
        assert account.deploy(template) == "CREATE_COMPLETE"
        other.deploy(serving(other.put_archive(b"a")))
        account.client("s3").put_object(Bucket=self.bucket, Key="in/1", Body=b"1,2")

    def submit(self, key: str = "in/1", **more: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.account.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName="ranker", InputLocation=f"s3://{self.bucket}/{key}", **more
        )
        return answer

    def read(self, location: str) -> bytes:
        key = location.removeprefix(f"s3://{self.bucket}/")
        s3, deadline = self.account.client("s3"), time.monotonic() + 30
        while True:
            try:
                found: bytes = s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
                return found
            except ClientError:
                assert time.monotonic() < deadline, location
                time.sleep(0.01)


@pytest.fixture(scope="module")
def queue(embedded: LocalAws, launcher: Launcher) -> Queue:
    return Queue(Account(embedded, launcher), Account(embedded, launcher))


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as raised:
        call()
    assert raised.value.response["Error"]["Code"] == "ValidationError"
    return str(raised.value.response["Error"]["Message"])


def test_a_request_is_accepted_and_reaches_the_container(queue: Queue) -> None:
    answer = queue.submit(InferenceId="mine")
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["InferenceId"]) == (202, "mine")
    assert answer["OutputLocation"].startswith(f"s3://{queue.bucket}/answers/")
    assert answer["FailureLocation"].startswith(f"s3://{queue.bucket}/failures/")

    given = {"ContentType": "text/csv", "Accept": "a/b", "CustomAttributes": "tier=gold"}
    received = json.loads(queue.read(queue.submit(**given)["OutputLocation"]))
    headers = {name.lower(): value for name, value in received["headers"].items()}
    assert (received["body"], received["path"]) == ("1,2", "/invocations")
    assert (headers["content-type"], headers["accept"]) == ("text/csv", "a/b")
    assert headers["x-amzn-sagemaker-custom-attributes"] == "tier=gold"
    answer = queue.account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName="ranker", Body=b"3,4", ContentType="text/csv"
    )
    assert json.loads(queue.read(answer["OutputLocation"]))["body"] == "3,4"


def test_what_is_not_for_this_endpoint_is_refused(queue: Queue) -> None:
    assert "exactly one" in refused(lambda: queue.submit(Body="3,4"))

    runtime = queue.account.client("sagemaker-runtime")
    message = refused(lambda: runtime.invoke_endpoint(EndpointName="ranker", Body=b"x"))
    assert message == "Endpoint ranker is asynchronous: call InvokeEndpointAsync."

    runtime = queue.other.client("sagemaker-runtime")
    message = refused(
        lambda: runtime.invoke_endpoint_async(EndpointName="ranker", InputLocation="s3://b/k")
    )
    assert message == "Endpoint ranker is not asynchronous: call InvokeEndpoint."

    runtime = queue.account.client("sagemaker-runtime")
    message = refused(
        lambda: runtime.invoke_endpoint_async(EndpointName="ranker", InputLocation="https://b/k")
    )
    assert "InputLocation" in message


def test_what_cannot_be_downloaded_is_counted(queue: Queue, clock: ManualClock) -> None:
    failure = queue.read(queue.submit("in/absent")["FailureLocation"])
    assert failure.startswith(b"Failed to download input from s3://")
    found = queue.account.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="RequestDownloadFailures",
        Dimensions=[
            {"Name": "EndpointName", "Value": "ranker"},
            {"Name": "VariantName", "Value": "primary"},
        ],
        StartTime=clock.now() - timedelta(hours=1),
        EndTime=clock.now() + timedelta(hours=1),
        Period=7200,
        Statistics=["Sum"],
    )["Datapoints"]
    assert sum(point["Sum"] for point in found) == 1


BACKLOG = (
    "ApproximateBacklogSize",
    "ApproximateBacklogSizePerInstance",
    "HasBacklogWithoutCapacity",
)


def backlog(queue: Queue, clock: ManualClock) -> list[float]:
    """What the last minute says of it."""
    clock.advance(minutes=1)
    found = []
    for name in BACKLOG:
        (point,) = queue.account.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=name,
            Dimensions=[{"Name": "EndpointName", "Value": "ranker"}],
            StartTime=clock.now() - timedelta(minutes=1),
            EndTime=clock.now(),
            Period=60,
            Statistics=["Average"],
        )["Datapoints"]
        found.append(point["Average"])
    return found


def test_requests_without_an_instance_are_backlog(queue: Queue, clock: ManualClock) -> None:
    queue.account.scale(least=0, most=0)
    clock.advance(minutes=1)
    answers = [queue.submit()["OutputLocation"] for _ in range(2)]
    time.sleep(1)  # an answer that does not wait comes within 0.3 s
    waiting = backlog(queue, clock)
    queue.account.scale(least=4, most=4)
    clock.advance(minutes=1)
    assert [json.loads(queue.read(answer))["body"] for answer in answers] == ["1,2", "1,2"]
    # An answer is there a moment before its request is counted as done.
    served = next((now for _ in range(50) if not any(now := backlog(queue, clock))), None)
    assert (waiting, served) == ([2.0, 2.0, 1.0], [0.0, 0.0, 0.0])


TRACED = "tfs-model-version=1,inference-id=order-42"
CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": "s3://captured/prod",
    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"CsvContentTypes": ["text/csv"]},
}


def test_a_captured_request_is_recorded_with_its_answer(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="captured")
    template = serving(account.put_archive(b"a"))
    template["Resources"]["Config"]["Properties"]["DataCaptureConfig"] = CAPTURE
    account.deploy(template)
    account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker",
        Body=b"1,2",
        ContentType="text/csv",
        CustomAttributes=TRACED,
        InferenceId="order-42",
    )
    while not (listed := s3.list_objects_v2(Bucket="captured").get("Contents")):
        time.sleep(0.01)
    (key,) = [one["Key"] for one in listed]
    folders = key.split("/")
    assert (folders[:3], len(folders)) == (["prod", "ranker", "primary"], 8)
    record = json.loads(s3.get_object(Bucket="captured", Key=key)["Body"].read())
    assert record["eventMetadata"]["inferenceId"] == "order-42"
    assert record["eventMetadata"]["customAttributes"] == [TRACED]
    side = {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2", "encoding": "CSV"}
    assert record["captureData"]["endpointInput"] == side
    assert record["captureData"]["endpointOutput"]["encoding"] == "BASE64"
    found = account.client("sagemaker").describe_endpoint(EndpointName="ranker")
    assert found["DataCaptureConfig"]["CaptureStatus"] == "Started"
