"""InvokeEndpointAsync: what becomes of a request that lies in S3, and who is told of it.

Source of the messages: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-check-predictions.html
"""

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.sagemaker.stored_invocations import LONGEST_SHOWN, QueuedInvocation

INPUT, SUCCESS, ERROR = "s3://in/requests/1", "arn:success", "arn:error"
HEADERS = {
    "X-Amzn-SageMaker-InputLocation": INPUT,
    "X-Amzn-SageMaker-Content-Type": "text/csv",
    "X-Amzn-SageMaker-Inference-Id": "mine",
}
OUTPUT = {
    "S3OutputPath": "s3://out/answers/",
    "S3FailurePath": "s3://out/failures/",
    "NotificationConfig": {"SuccessTopic": SUCCESS, "ErrorTopic": ERROR},
}


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

    def __init__(
        self,
        status: int = 200,
        answer: bytes = b"0.5",
        *,
        headers: dict[str, str] = HEADERS,
        missing: bool = False,
        **output: Any,
    ) -> None:
        self.aws = Aws()
        if missing:
            self.aws.objects.clear()
        self.asked: list[bytes] = []
        self.counted: list[str] = []
        config = {"OutputConfig": {**OUTPUT, **output}}
        if output.get("S3FailurePath", "") is None:
            del config["OutputConfig"]["S3FailurePath"]
        self.queued = QueuedInvocation("ranker", config, headers)

        def ask(body: bytes) -> tuple[int, str, bytes]:
            self.asked.append(body)
            return status, "application/json", answer

        aws: Any = self.aws
        self.queued.run(aws, ManualClock(datetime(2026, 11, 23, 9, 30)), ask, self.counted.append)

    @property
    def message(self) -> tuple[str, dict[str, Any]]:
        (message,) = self.aws.messages
        return message

    @property
    def stored(self) -> dict[str, dict[str, Any]]:
        return {name: one for name, one in self.aws.objects.items() if name != INPUT}


def test_the_model_is_asked_and_its_answer_told() -> None:
    assert Run().asked == [b"1,2"]

    run = Run()
    name = f"s3://out/answers/{run.queued.number}.out"
    assert run.queued.output_location == name
    assert run.stored == {name: {"Body": b"0.5", "ContentType": "application/json"}}
    assert Run().queued.output_location != Run().queued.output_location
    assert run.message == (
        SUCCESS,
        {
            "awsRegion": "eu-west-1",
            "receivedTime": "2026-11-23T09:30:00",
            "invocationStatus": "Completed",
            "requestParameters": {
                "contentType": "text/csv",
                "endpointName": "ranker",
                "inputLocation": INPUT,
            },
            "responseParameters": {
                "contentType": "application/json",
                "outputLocation": run.queued.output_location,
            },
            "inferenceId": "mine",
            "eventVersion": "1.0",
            "eventSource": "aws:sagemaker",
            "eventName": "InferenceResult",
        },
    )
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
        assert (topic, message["invocationStatus"], message["failureReason"]) == (
            ERROR,
            "Failed",
            said,
        )
        assert run.counted == ["InvocationFailures"]


def test_what_goes_wrong_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run()
    aws: Any = run.aws
    run.queued.run(aws, ManualClock(), lambda body: (200, "", b"x"), run.counted.append)
    assert run.stored[run.queued.output_location]["ContentType"] == "text/plain"

    def ask(body: bytes) -> tuple[int, str, bytes]:
        raise RuntimeError("broken")

    run = Run()
    aws = run.aws
    run.queued.run(aws, ManualClock(), ask, run.counted.append)
    assert "the request mine to ranker is lost" in capsys.readouterr().err
