"""One request through an asynchronous endpoint's queue, waited for as long as people wait."""

import time
import uuid
from typing import Any

from botocore.exceptions import ClientError

from servable.aws_account import Account, absent

# An instance that runs answers within it; one that must first be started needs minutes more.
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
# Beside the answers, where callers put theirs: infra/constructs/storage/retained_store.py.
REQUESTS = "requests"


class NotAnsweredError(Exception):
    """`str()` is the reason."""


class NoInstanceError(Exception):
    """Scaled to no instance: a request would wait until one has been started."""


def ask(
    account: Account, endpoint: str, body: bytes, content_type: str, wait_seconds: float
) -> bytes:
    """The answer's body. The request, and what comes of it, go with the bucket's lifecycle.

    Raises `NotAnsweredError`, `NoInstanceError`, and what botocore raises.
    """
    live = account.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    if all(one.get("CurrentInstanceCount") == 0 for one in live["ProductionVariants"]):
        raise NoInstanceError
    output = live["AsyncInferenceConfig"]["OutputConfig"]
    bucket, key = output["S3OutputPath"].split("/")[2], f"{REQUESTS}/verify-{uuid.uuid4().hex}"
    s3 = account.client("s3")
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
    asked = account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint, InputLocation=f"s3://{bucket}/{key}", ContentType=content_type
    )
    until = time.monotonic() + wait_seconds
    while time.monotonic() < until:
        if (answer := _read(s3, asked["OutputLocation"])) is not None:
            return answer
        if (failure := _read(s3, asked.get("FailureLocation"))) is not None:
            raise NotAnsweredError(failure.decode(errors="replace"))
        time.sleep(POLL_SECONDS)
    raise NotAnsweredError(
        f"nothing within {wait_seconds:g} s; look at the queue's age on the dashboard"
    )


def _read(s3: Any, location: str | None) -> bytes | None:
    """None while it is not there."""
    if location is None:
        return None
    bucket, _, key = location.removeprefix("s3://").partition("/")
    try:
        found: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if absent(error):
            return None
        raise
    return found
