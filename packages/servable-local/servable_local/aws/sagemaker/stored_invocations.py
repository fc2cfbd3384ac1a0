"""Invocations that S3 stores: InvokeEndpointAsync, and data capture of a real-time endpoint.

InvokeEndpointAsync reads the request from S3 or from the call, and writes the response to S3; a topic
receives a notification. Data capture writes a sample of requests and responses as JSON lines. AWS collects
several lines in an object; here each request has one, at once. Only 2xx responses are captured.
Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-check-predictions.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
"""

import base64
import json
import random
import sys
import traceback
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from servable_local.aws.clock import Clock
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.model_data import build_encryption, parse_s3_location
from servable_tensors.records import parse_media_type

_CUSTOM = "X-Amzn-SageMaker-Custom-Attributes"
_INFERENCE_ID = "X-Amzn-SageMaker-Inference-Id"
Message = tuple[str, bytes]
"""Content type and body."""
LONGEST_SHOWN = 1024
# body -> status, content type, response
Ask = Callable[[bytes], tuple[int, str, bytes]]
# Counts a failure in the metric of this name.
CountFailure = Callable[[str], None]


def is_captured(capture: Mapping[str, Any]) -> bool:
    """Return whether the sample includes this request; `capture` is a DataCaptureConfig."""
    enabled: bool = capture.get("EnableCapture", True)
    return enabled and random.random() * 100 < capture["InitialSamplingPercentage"]


def store_capture(
    aws: Loopback,
    capture: Mapping[str, Any],
    at: datetime,
    *,
    endpoint: str,
    variant: str,
    headers: Mapping[str, str],
    request: Message,
    answer: Message,
) -> None:
    """Store one request's record. A failure is printed: the caller already has the response."""
    line = json.dumps(_build_record(capture, at, headers, request, answer)) + "\n"
    bucket, prefix = parse_s3_location(capture["DestinationS3Uri"])
    folder = "/".join(filter(None, [prefix.rstrip("/"), endpoint, variant, f"{at:%Y/%m/%d/%H}"]))
    try:
        aws.client("s3").put_object(
            Bucket=bucket,
            Key=f"{folder}/{at:%M-%S}-{at.microsecond // 1000:03}-{uuid.uuid4()}.jsonl",
            Body=line.encode(),
            **build_encryption(capture.get("KmsKeyId")),
        )
    except (BotoCoreError, ClientError) as error:
        print(f"cannot capture a request to {endpoint}: {error}", file=sys.stderr)


def _build_record(
    capture: Mapping[str, Any],
    at: datetime,
    headers: Mapping[str, str],
    request: Message,
    answer: Message,
) -> dict[str, Any]:
    modes = {option["CaptureMode"] for option in capture["CaptureOptions"]}
    sides = {"Input": ("endpointInput", request), "Output": ("endpointOutput", answer)}
    both = "InputAndOutput" in modes
    metadata: dict[str, Any] = {"eventId": str(uuid.uuid4())}
    if headers.get(_CUSTOM):
        metadata["customAttributes"] = [headers[_CUSTOM]]
    if headers.get(_INFERENCE_ID):
        metadata["inferenceId"] = headers[_INFERENCE_ID]
    return {
        "captureData": {
            name: _build_side(capture, mode.upper(), *message)
            for mode, (name, message) in sides.items()
            if both or mode in modes
        },
        "eventMetadata": {**metadata, "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"},
        "eventVersion": "0",
    }


def _build_side(
    capture: Mapping[str, Any], mode: str, content_type: str, body: bytes
) -> dict[str, str]:
    types = capture.get("CaptureContentTypeHeader", {})
    kind = parse_media_type(content_type)
    side = {"observedContentType": content_type, "mode": mode}
    for encoding in ("CSV", "JSON"):
        if kind in (listed.lower() for listed in types.get(f"{encoding.title()}ContentTypes", [])):
            return {**side, "data": body.decode(errors="replace"), "encoding": encoding}
    return {**side, "data": base64.b64encode(body).decode(), "encoding": "BASE64"}


class QueuedInvocation:
    """An asynchronous request from its arrival to its stored response."""

    def __init__(
        self,
        endpoint: str,
        config: Mapping[str, Any],
        headers: Mapping[str, str],
        inline: bytes = b"",
    ) -> None:
        """Initialize from a request's headers, and its body if it was sent inline.

        `config` is the endpoint's AsyncInferenceConfig.
        """
        self.endpoint, self.config, self.inline = endpoint, config, inline
        self.input_location = headers.get("X-Amzn-SageMaker-InputLocation", "")
        self.content_type = headers.get("X-Amzn-SageMaker-Content-Type", "")
        self.inference_id = headers.get(_INFERENCE_ID) or str(uuid.uuid4())
        self.number = str(uuid.uuid4())  # names the object with the response

    @property
    def output_location(self) -> str:
        return f"{self.config['OutputConfig']['S3OutputPath'].rstrip('/')}/{self.number}.out"

    @property
    def failure_location(self) -> str | None:
        path = self.config["OutputConfig"].get("S3FailurePath")
        return None if path is None else f"{path.rstrip('/')}/{self.number}-error.out"

    def run(self, aws: Loopback, clock: Clock, ask: Ask, count: CountFailure) -> None:
        """Run the invocation to its success or failure; log errors of the local AWS itself."""
        received = clock.now().isoformat()
        try:
            try:
                body = self.inline or self._download(aws)
            except ClientError as error:
                count("InvocationFailures")
                count("RequestDownloadFailures")
                reason = f"Failed to download input from {self.input_location}: {error}"
                self._report_failure(aws, received, 0, reason)
                return
            status, content_type, answer = ask(body)
            if 200 <= status < 300:
                self._store_object(aws, self.output_location, answer, content_type)
                response = {"contentType": content_type, "outputLocation": self.output_location}
                self._notify(aws, "SuccessTopic", "Completed", received, response)
            else:
                count("InvocationFailures")
                self._report_failure(aws, received, status, answer.decode("utf-8", "replace"))
        except Exception:
            print(f"the request {self.inference_id} to {self.endpoint} is lost", file=sys.stderr)
            traceback.print_exc()

    def _download(self, aws: Loopback) -> bytes:
        bucket, key = parse_s3_location(self.input_location)
        body: bytes = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def _report_failure(self, aws: Loopback, received: str, status: int, reason: str) -> None:
        where = self.failure_location
        if where is not None:
            self._store_object(aws, where, reason.encode(), "text/plain")
        if status:
            reason = f"ModelError: Received {status} from container with message: {reason}"
        response = {"outputLocation": where} if where else {}
        shown = reason[:LONGEST_SHOWN]
        self._notify(aws, "ErrorTopic", "Failed", received, response, failureReason=shown)

    def _store_object(self, aws: Loopback, location: str, body: bytes, content_type: str) -> None:
        bucket, key = parse_s3_location(location)
        aws.client("s3").put_object(
            Bucket=bucket,
            Key=key,
            Body=body,
            ContentType=content_type or "text/plain",
            **build_encryption(self.config["OutputConfig"].get("KmsKeyId")),
        )

    def _notify(
        self,
        aws: Loopback,
        topic: str,
        status: str,
        received: str,
        response: Mapping[str, str],
        **more: str,
    ) -> None:
        arn = self.config["OutputConfig"].get("NotificationConfig", {}).get(topic)
        if arn is None:
            return
        request = {"contentType": self.content_type, "endpointName": self.endpoint}
        message = {
            "awsRegion": aws.region,
            "receivedTime": received,
            "invocationStatus": status,
            **more,
            "requestParameters": request | {"inputLocation": self.input_location},
            "responseParameters": dict(response),
            "inferenceId": self.inference_id,
            "eventVersion": "1.0",
            "eventSource": "aws:sagemaker",
            "eventName": "InferenceResult",
        }
        aws.client("sns").publish(TopicArn=arn, Message=json.dumps(message))
