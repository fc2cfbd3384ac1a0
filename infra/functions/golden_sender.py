"""Runs in AWS Lambda once a minute: asks the endpoint while it is being updated, else nothing.

Its own file is all that is deployed, inside the template: at most 4096 characters.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

ROUND_SECONDS = 55
# A failure is what the alarms are to see: it is not repeated.
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=60)


# These of InvokeEndpoint the endpoint counts as 5xx, which the rollback alarms watch. A ModelError
# carries the container's own status. Every other error is of no update: it must be seen here.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
COUNTED = ("InternalDependencyException", "InternalFailure", "ServiceUnavailable")


class UnsentError(Exception):
    """The endpoint was not asked, so that its alarms judge nothing. Lambda counts it as an error."""


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """`event`: endpoint, body (base64), content_type, per_minute. Answers {"sent", "failed"}.

    Raises UnsentError. Lambda then runs the same minute again, twice: it asks the same.
    """
    sagemaker = boto3.client("sagemaker")
    runtime = boto3.client("sagemaker-runtime", config=ONCE)
    said = send(event, sagemaker, runtime, time.sleep)
    if said["sent"]:
        print(said)
    return said


def send(
    event: dict[str, Any], sagemaker: Any, runtime: Any, sleep: Callable[[float], None]
) -> dict[str, int]:
    """One minute's requests, evenly, each answer thrown away.

    Raises UnsentError at the end where a request did not reach a container that takes it.
    """
    sent = failed = 0
    unsent: list[str] = []
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
            except (BotoCoreError, ClientError) as error:
                failed += 1
                if not counted(error):
                    unsent.append(str(error))
    if unsent:
        raise UnsentError(f"{len(unsent)} of {sent} golden requests were not sent: {unsent[0]}")
    return {"sent": sent, "failed": failed}


def counted(error: BotoCoreError | ClientError) -> bool:
    """Whether the endpoint's own metrics show it as a 5xx."""
    if not isinstance(error, ClientError):
        return isinstance(error, ReadTimeoutError)  # it was asked, and did not answer in time
    code = error.response["Error"]["Code"]
    if code == "ModelError":
        return int(error.response.get("OriginalStatusCode", 500)) >= 500
    return code in COUNTED


def updating(endpoint: str, sagemaker: Any) -> bool:
    """Not before it exists, and not while nothing is being judged. Raises UnsentError where it cannot
    be known, as without leave to ask."""
    try:
        found = sagemaker.describe_endpoint(EndpointName=endpoint)
        return bool(found["EndpointStatus"] == "Updating")
    except (BotoCoreError, ClientError) as error:
        if "Could not find endpoint" in str(error):
            return False
        raise UnsentError(f"cannot see whether {endpoint} is being updated: {error}") from error
