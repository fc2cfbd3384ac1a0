"""What a caller of InvokeEndpoint sends and gets."""

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.sagemaker.stored_invocations import LONGEST_SHOWN, QueuedInvocation
from tests.servable_local.aws.boto_members import named, until
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.local_account import Queue as Inbox
from tests.servable_local.aws.watched_endpoint import Watched


def _invoke(account: Account, body: bytes = b"x", **more: str) -> Any:
    runtime = account.client("sagemaker-runtime")
    return runtime.invoke_endpoint(EndpointName="ranker", Body=body, **more)


def _error(account: Account, body: bytes = b"x", **more: str) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        _invoke(account, body, **more)
    return dict(caught.value.response)


def test_the_container_gets_the_request_and_the_caller_its_answer(ranker: Account) -> None:
    body = bytes(range(256))
    sent = {"ContentType": "text/csv", "Accept": "a/b", "CustomAttributes": "c"}
    sent |= {"InferenceId": "one"}
    answer = _invoke(ranker, body, **sent)
    names = ("ContentType", "CustomAttributes", "InvokedProductionVariant")
    found = [answer[name] for name in names]
    assert found == ["application/json", "from=container", "primary"]
    received = json.loads(answer["Body"].read())
    assert received["body"].encode("latin-1") == body
    headers = {key.lower(): value for key, value in received["headers"].items()}
    names = ("content-type", "accept", "custom-attributes", "inference-id")
    amazon = {name: f"x-amzn-sagemaker-{name}" for name in names[2:]}
    assert [headers[amazon.get(name, name)] for name in names] == [*sent.values()]


def test_a_containers_refusal_is_a_model_error(account: Account) -> None:
    account.deploy(serving(account.put_archive(b"a"), variables={"STATUS": "400"}))
    told = _error(account)
    assert told["Error"]["Code"] == "ModelError"
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert (told["OriginalStatusCode"], told["OriginalMessage"]) == (400, "the model says no")
    assert told["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/ranker")


@pytest.mark.long
def test_a_body_has_at_most_6_291_456_bytes_or_as_many_as_the_file_acknowledges(
    ranker: Account,
) -> None:
    assert _invoke(ranker, b"x" * 6_291_456)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert _error(ranker, b"x" * 6_291_457)["Error"]["Code"] == "ValidationError"

    sagemaker, name = ranker.client("sagemaker"), "servable:request-bytes"
    arn = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": name, "Value": "6291457"}])
    assert _invoke(ranker, b"x" * 6_291_457)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "6291457" in _error(ranker, b"x" * 6_291_458)["Error"]["Message"]
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=[name])


def test_what_sagemaker_refuses_is_said(ranker: Account) -> None:
    long: dict[str, Any] = {"CustomAttributes": "a" * 1025}
    told = _error(ranker, **long)["Error"]
    assert told["Code"] == "ValidationError"
    assert "Value at 'customAttributes' failed to satisfy constraint" in told["Message"]
    told = _error(ranker, **long, InferenceId="i" * 65)["Error"]
    assert told["Message"].startswith("2 validation errors detected: ")
    wanted = f"Variant absent not found for endpoint ranker of account {ranker.number}."
    told = _error(ranker, TargetVariant="absent")["Error"]
    assert told == {"Code": "ValidationError", "Message": wanted}
    told = _error(ranker, TargetModel="a.tar.gz")["Error"]
    assert "not a multi-model endpoint" in told["Message"]


class Queue:
    """The asynchronous endpoint `ranker`."""

    def __init__(self, account: Account) -> None:
        self.account, self.bucket = account, f"archives-{account.number}"
        template, uri = serving(account.put_archive(b"a")), f"s3://{self.bucket}"
        sns, self._inbox = account.client("sns"), Inbox(account)
        topic = sns.create_topic(Name="results")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self._inbox.arn)
        output = {"S3OutputPath": f"{uri}/answers", "S3FailurePath": f"{uri}/failures",
                  "NotificationConfig": {"SuccessTopic": topic, "ErrorTopic": topic}}  # fmt: skip
        config = template["Resources"]["Config"]["Properties"]
        config["AsyncInferenceConfig"] = {"OutputConfig": output}
        assert account.deploy(template) == "CREATE_COMPLETE"
        account.client("s3").put_object(Bucket=self.bucket, Key="in/1", Body=b"1,2")

    def submit(self, key: str = "in/1", **more: Any) -> dict[str, Any]:
        given = {"InputLocation": f"s3://{self.bucket}/{key}"} if key else {}
        invoke = self.account.client("sagemaker-runtime").invoke_endpoint_async
        return dict(invoke(EndpointName="ranker", **given | more))

    def read(self, location: str) -> bytes:
        key, s3 = location.removeprefix(f"s3://{self.bucket}/"), self.account.client("s3")
        wait = {"Delay": 0.01, "MaxAttempts": 3000}
        s3.get_waiter("object_exists").wait(Bucket=self.bucket, Key=key, WaiterConfig=wait)
        return bytes(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def told(self, answer: dict[str, Any]) -> str:
        """The status that a message to the topic has for a request."""
        mine = f'"inferenceId": "{answer["InferenceId"]}"'
        (body,) = self._inbox.receive(1, lambda body: mine in body["Message"])
        return str(json.loads(body["Message"])["invocationStatus"])


@pytest.fixture(scope="module")
def queue(accounts: Account) -> Queue:
    return Queue(accounts.another())


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as raised:
        call()
    error = raised.value.response["Error"]
    assert error["Code"] == "ValidationError"
    return str(error["Message"])


def test_an_asynchronous_request_reaches_the_container_or_is_refused(
    queue: Queue, ranker: Account
) -> None:
    given = {"ContentType": "text/csv", "Accept": "a/b", "CustomAttributes": "tier=gold"}
    answer = queue.submit(InferenceId="mine", **given)
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["InferenceId"]) == (202, "mine")
    assert answer["OutputLocation"].startswith(f"s3://{queue.bucket}/answers/")
    assert answer["FailureLocation"].startswith(f"s3://{queue.bucket}/failures/")
    received = json.loads(queue.read(answer["OutputLocation"]))
    headers = {name.lower(): value for name, value in received["headers"].items()}
    assert (received["body"], received["path"]) == ("1,2", "/invocations")
    assert (headers["content-type"], headers["accept"]) == ("text/csv", "a/b")
    assert headers["x-amzn-sagemaker-custom-attributes"] == "tier=gold"
    assert queue.told(answer) == "Completed"
    answer = queue.submit("", Body=b"3,4", ContentType="text/csv")
    assert json.loads(queue.read(answer["OutputLocation"]))["body"] == "3,4"

    assert "exactly one" in refused(lambda: queue.submit(Body="3,4"))
    assert "InputLocation" in refused(lambda: queue.submit(InputLocation="https://b/k"))
    message = refused(lambda: _invoke(queue.account))
    assert message == "Endpoint ranker is asynchronous: call InvokeEndpointAsync."
    other = ranker.client("sagemaker-runtime").invoke_endpoint_async
    message = refused(lambda: other(EndpointName="ranker", InputLocation="s3://b/k"))
    assert message == "Endpoint ranker is not asynchronous: call InvokeEndpoint."


def test_what_cannot_be_downloaded_is_counted(queue: Queue) -> None:
    answer = queue.submit("in/absent")
    failure = queue.read(answer["FailureLocation"])
    assert failure.startswith(b"Failed to download input from s3://")
    assert queue.told(answer) == "Failed"
    assert Watched(queue.account).statistic("RequestDownloadFailures", "Sum") == 1


BACKLOG = ("ApproximateBacklogSize", "ApproximateBacklogSizePerInstance",
           "HasBacklogWithoutCapacity")  # fmt: skip


def backlog(queue: Queue, clock: ManualClock) -> list[float]:
    """What the last minute says of it."""
    clock.advance(minutes=1)
    found = []
    for name in BACKLOG:
        (point,) = queue.account.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker", MetricName=name, Dimensions=named(EndpointName="ranker"),
            StartTime=clock.now() - timedelta(minutes=1), EndTime=clock.now(), Period=60,
            Statistics=["Average"],
        )["Datapoints"]  # fmt: skip
        found.append(point["Average"])
    return found


@pytest.mark.long
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
    "EnableCapture": True, "InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://captured/prod",
    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"CsvContentTypes": ["text/csv"]},
}  # fmt: skip


def test_a_captured_request_is_recorded_with_its_answer(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="captured")
    template = serving(account.put_archive(b"a"))
    template["Resources"]["Config"]["Properties"]["DataCaptureConfig"] = CAPTURE
    account.deploy(template)
    traced = {"CustomAttributes": TRACED, "InferenceId": "order-42"}
    _invoke(account, b"1,2", ContentType="text/csv", **traced)
    listed = until(lambda: s3.list_objects_v2(Bucket="captured").get("Contents"))
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


# --- what becomes of a request that lies in S3, and who is told of it
# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-check-predictions.html

INPUT, SUCCESS, ERROR = "s3://in/requests/1", "arn:success", "arn:error"
HEADERS = {"X-Amzn-SageMaker-InputLocation": INPUT, "X-Amzn-SageMaker-Content-Type": "text/csv",
           "X-Amzn-SageMaker-Inference-Id": "mine"}  # fmt: skip
OUTPUT = {"S3OutputPath": "s3://out/answers/", "S3FailurePath": "s3://out/failures/",
          "NotificationConfig": {"SuccessTopic": SUCCESS, "ErrorTopic": ERROR}}  # fmt: skip


class Aws:
    """S3 with the request in it, and SNS."""

    region = "eu-west-1"

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {"s3://in/requests/1": {"Body": b"1,2"}}
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def client(self, service: str) -> Any:
        return self

    def get_object(self, **asked: str) -> Any:
        try:
            body = self.objects["s3://{Bucket}/{Key}".format(**asked)]["Body"]
        except KeyError:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject") from None
        return {"Body": SimpleNamespace(read=lambda: body)}

    def put_object(self, **asked: Any) -> None:
        name = "s3://{Bucket}/{Key}".format(**asked)
        self.objects[name] = {k: v for k, v in asked.items() if k not in ("Bucket", "Key")}

    def publish(self, **asked: str) -> None:
        self.messages.append((asked["TopicArn"], json.loads(asked["Message"])))


class Run:
    """One request, to its end."""

    def __init__(self, status: int = 200, answer: bytes = b"0.5", *, missing: bool = False,
                 headers: dict[str, str] = HEADERS, **output: Any) -> None:  # fmt: skip
        aws = Aws()
        self.aws, self.messages = cast(Any, aws), aws.messages
        if missing:
            aws.objects.clear()
        self.asked: list[bytes] = []
        self.counted: list[str] = []
        given = {name: value for name, value in (OUTPUT | output).items() if value is not None}
        self.queued = QueuedInvocation("ranker", {"OutputConfig": given}, headers)

        def ask(body: bytes) -> tuple[int, str, bytes]:
            self.asked.append(body)
            return status, "application/json", answer

        clock = ManualClock(datetime(2026, 11, 23, 9, 30))
        self.queued.run(self.aws, clock, ask, self.counted.append)

    @property
    def message(self) -> tuple[str, dict[str, Any]]:
        (message,) = self.messages
        return message

    @property
    def stored(self) -> dict[str, dict[str, Any]]:
        return {name: one for name, one in self.aws.objects.items() if name != INPUT}


def test_the_model_is_asked_and_its_answer_told() -> None:
    run = Run()
    assert run.asked == [b"1,2"]
    name = f"s3://out/answers/{run.queued.number}.out"
    assert run.queued.output_location == name != Run().queued.output_location
    assert run.stored == {name: {"Body": b"0.5", "ContentType": "application/json"}}
    request = {"contentType": "text/csv", "endpointName": "ranker", "inputLocation": INPUT}
    told = {
        "awsRegion": "eu-west-1", "receivedTime": "2026-11-23T09:30:00", "inferenceId": "mine",
        "invocationStatus": "Completed", "requestParameters": request,
        "responseParameters": {"contentType": "application/json", "outputLocation": name},
        "eventVersion": "1.0", "eventSource": "aws:sagemaker", "eventName": "InferenceResult",
    }  # fmt: skip
    assert run.message == (SUCCESS, told)
    for status in [200, 299]:
        run = Run(status)
        assert (run.counted, run.message[0]) == ([], SUCCESS)


def test_key_topics_and_id_are_those_of_the_request() -> None:
    (answer,) = Run(KmsKeyId="key").stored.values()
    assert (answer["ServerSideEncryption"], answer["SSEKMSKeyId"]) == ("aws:kms", "key")
    run = Run(NotificationConfig={})
    assert (run.aws.messages, len(run.stored)) == ([], 1)

    headers = {"X-Amzn-SageMaker-InputLocation": INPUT}
    ids = {Run(headers=headers).queued.inference_id for _ in range(2)}
    assert (len(ids), "" in ids) == (2, False)


def test_a_failure_is_stored_and_told() -> None:
    run = Run(500, b"out of order")
    name = f"s3://out/failures/{run.queued.number}-error.out"
    assert run.queued.failure_location == name
    assert run.stored == {name: {"Body": b"out of order", "ContentType": "text/plain"}}
    assert run.message[1]["responseParameters"] == {"outputLocation": name}

    run = Run(500, S3FailurePath=None)
    assert (run.queued.failure_location, run.stored) == (None, {})
    assert run.message[1]["responseParameters"] == {}

    run = Run(missing=True)
    assert (run.asked, run.counted) == ([], ["InvocationFailures", "RequestDownloadFailures"])
    reason = run.message[1]["failureReason"]
    assert reason.startswith(f"Failed to download input from {INPUT}: ")
    assert len(Run(500, b"x" * 5000).message[1]["failureReason"]) == LONGEST_SHOWN
    for status in [199, 300, 500]:
        run = Run(status, b"out of order")
        said = f"ModelError: Received {status} from container with message: out of order"
        topic, message = run.message
        found = topic, message["invocationStatus"], message["failureReason"]
        assert (found, run.counted) == ((ERROR, "Failed", said), ["InvocationFailures"])


def test_what_goes_wrong_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    run, clock = Run(), ManualClock()
    run.queued.run(run.aws, clock, lambda body: (200, "", b"x"), run.counted.append)
    assert run.stored[run.queued.output_location]["ContentType"] == "text/plain"
    run.queued.run(run.aws, clock, Mock(side_effect=RuntimeError("broken")), run.counted.append)
    assert "the request mine to ranker is lost" in capsys.readouterr().err
