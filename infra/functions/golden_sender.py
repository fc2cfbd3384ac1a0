"""Runs in AWS Lambda once a minute: asks the endpoint while it is being updated, else nothing.

Its own file is all that is deployed, inside the template: at most 4096 characters.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROUND_SECONDS = 55
# A failure is what the alarms are to see: it is not repeated.
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=60)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """`event`: endpoint, body (base64), content_type, per_minute. Answers {"sent", "failed"}."""
    sagemaker = boto3.client("sagemaker")
    runtime = boto3.client("sagemaker-runtime", config=ONCE)
    said = send(event, sagemaker, runtime, time.sleep)
    if said["sent"]:
        print(said)
    return said


def send(
    event: dict[str, Any], sagemaker: Any, runtime: Any, sleep: Callable[[float], None]
) -> dict[str, int]:
    """One minute's requests, evenly, each answer thrown away."""
    sent = failed = 0
    started = time.monotonic()
    if updating(event["endpoint"], sagemaker):
        for turn in range(event["per_minute"]):
            due = started + turn * ROUND_SECONDS / event["per_minute"]
            sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() > started + ROUND_SECONDS:
                break  # slow answers: the next round goes on
            sent += 1
            try:
                runtime.invoke_endpoint(
                    EndpointName=event["endpoint"],
                    Body=base64.b64decode(event["body"]),
                    ContentType=event["content_type"],
                )["Body"].read()
            except (BotoCoreError, ClientError):
                failed += 1
    return {"sent": sent, "failed": failed}


def updating(endpoint: str, sagemaker: Any) -> bool:
    """Not before it exists, and not while nothing is being judged."""
    try:
        found = sagemaker.describe_endpoint(EndpointName=endpoint)
        return bool(found["EndpointStatus"] == "Updating")
    except ClientError:
        return False
