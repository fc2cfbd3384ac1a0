"""Data capture of a real-time endpoint: a sample of its requests and answers, as JSON lines in S3.

AWS collects several lines in an object; here each request has one, at once. Only answers 2xx are captured.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
"""

import base64
import json
import random
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.model_data import s3_location
from servable_tensors.capture_record import media_type

_CUSTOM = "X-Amzn-SageMaker-Custom-Attributes"
_INFERENCE_ID = "X-Amzn-SageMaker-Inference-Id"
Message = tuple[str, bytes]
"""Content type and body."""


def is_captured(capture: Mapping[str, Any]) -> bool:
    """Whether this request is one of the sample; `capture` is the endpoint's DataCaptureConfig."""
    enabled: bool = capture.get("EnableCapture", True)
    return enabled and random.random() * 100 < capture["InitialSamplingPercentage"]


def put_captured(
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
    """Put the record of one request. A failure is printed: the caller has its answer already."""
    line = json.dumps(_record(capture, at, headers, request, answer)) + "\n"
    bucket, prefix = s3_location(capture["DestinationS3Uri"])
    folder = "/".join(filter(None, [prefix.rstrip("/"), endpoint, variant, f"{at:%Y/%m/%d/%H}"]))
    encrypted: dict[str, Any] = {}
    if kms_key := capture.get("KmsKeyId"):
        encrypted = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}
    try:
        aws.client("s3").put_object(
            Bucket=bucket,
            Key=f"{folder}/{at:%M-%S}-{at.microsecond // 1000:03}-{uuid.uuid4()}.jsonl",
            Body=line.encode(),
            **encrypted,
        )
    except (BotoCoreError, ClientError) as error:
        print(f"a request to {endpoint} is not captured: {error}", file=sys.stderr)


def _record(
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
            name: _side(capture, mode.upper(), *message)
            for mode, (name, message) in sides.items()
            if both or mode in modes
        },
        "eventMetadata": {**metadata, "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"},
        "eventVersion": "0",
    }


def _side(capture: Mapping[str, Any], mode: str, content_type: str, body: bytes) -> dict[str, str]:
    types = capture.get("CaptureContentTypeHeader", {})
    kind = media_type(content_type)
    side = {"observedContentType": content_type, "mode": mode}
    for encoding in ("CSV", "JSON"):
        if kind in (listed.lower() for listed in types.get(f"{encoding.title()}ContentTypes", [])):
            return {**side, "data": body.decode(errors="replace"), "encoding": encoding}
    return {**side, "data": base64.b64encode(body).decode(), "encoding": "BASE64"}
