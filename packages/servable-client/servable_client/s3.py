"""Requests and answers of asynchronous inferences, in S3.

Putting the same request twice, and reading, do no harm: every failure here is one that can be
repeated, and none has asked the model.
"""

import threading
from typing import Any

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, IncompleteReadError
from urllib3.exceptions import HTTPError

from servable_client.errors import (
    BadInputError,
    BusyError,
    ConnectionLostError,
    JobFailedError,
    NotAllowedError,
    PredictionError,
    UnreachableError,
)
from servable_client.exchange import Answer

# Without the permission to list a bucket, what is not there yet is forbidden.
_NOT_YET = ("NoSuchKey", "404", "AccessDenied", "403")
_LATER = ("SlowDown", "Throttling", "RequestTimeout", "InternalError", "ServiceUnavailable")
# What botocore and urllib3 say of a connection; the rest is about settings and credentials.
CONNECTION_ERRORS = (ConnectionError, HTTPClientError, IncompleteReadError, HTTPError)
_SHOWN = 2000
# How long one look may take; a job is looked at again.
LOOK_SECONDS = 20.0


class Store:
    """Requests and answers in S3. `client`: a boto3 client that makes one attempt. Thread-safe."""

    def __init__(self, client: Any) -> None:
        self._s3 = client
        self._attempt = threading.local()
        client.meta.events.register("provide-client-params.s3.*", self._set_timeout)

    def put(self, location: str, body: bytes, content_type: str, seconds: float) -> None:
        """Store a request. Raises `BadInputError`, `NotAllowedError`, `BusyError`, `UnreachableError`.

        After any of them the model has not been called.
        """
        bucket, key = _parted(location)
        self._attempt.seconds = seconds
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
        except ClientError as error:
            raise _refusal(f"{location}: cannot be written: {error}", error) from None
        except CONNECTION_ERRORS as error:
            raise UnreachableError(f"{location}: cannot be written: {error}") from None

    def look(self, output: str, failure: str | None) -> Answer | None:
        """Return the answer, None while there is none.

        Raises `JobFailedError`; `BusyError` and `ConnectionLostError` if another attempt may succeed.
        """
        if answer := self._get(output):
            return answer
        if failure and (failed := self._get(failure)):
            raise JobFailedError(f"{failure}: {failed.body[:_SHOWN].decode(errors='replace')}")
        return None

    def close(self) -> None:
        self._s3.close()

    def _get(self, location: str) -> Answer | None:
        bucket, key = _parted(location)
        self._attempt.seconds = LOOK_SECONDS
        try:
            content = self._s3.get_object(Bucket=bucket, Key=key)
            return Answer(body=content["Body"].read(), content_type=content["ContentType"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_YET:
                return None
            refusal = _refusal(f"{location}: cannot be read: {error}", error)
            refusal.executed = "maybe"
            raise refusal from None
        except CONNECTION_ERRORS as error:
            raise ConnectionLostError(
                f"{location}: cannot be read: {error}; the job goes on"
            ) from None

    def _set_timeout(self, context: dict[str, Any], **_: Any) -> None:
        context["read_timeout"] = self._attempt.seconds


def _refusal(message: str, error: ClientError) -> PredictionError:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if error.response["Error"]["Code"] in _LATER or status == 429 or (status or 0) >= 500:
        return BusyError(message, status=status)
    return NotAllowedError(message, status=status)


def _parted(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    if not location.startswith("s3://") or not bucket or not key:
        raise BadInputError(f"{location}: give a location in S3, as s3://bucket/prefix/")
    return bucket, key
