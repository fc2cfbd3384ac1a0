"""Requests and answers of asynchronous inferences, in S3."""

from typing import Any

from botocore.exceptions import ClientError

from servable_client.errors import BadInput, JobFailed, NotAllowed
from servable_client.exchange import Answer

# Without the permission to list a bucket, what is not there yet is forbidden.
_NOT_YET = ("NoSuchKey", "404", "AccessDenied", "403")
_SHOWN = 2000


class Store:
    def __init__(self, session: Any, region: str) -> None:
        self._s3 = session.client("s3", region_name=region)

    def put(self, location: str, body: bytes, content_type: str) -> None:
        """Raises `BadInput`, `NotAllowed`."""
        bucket, key = _parted(location)
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
        except ClientError as error:
            raise NotAllowed(f"{location}: cannot be written: {error}") from None

    def look(self, output: str, failure: str | None) -> Answer | None:
        """The answer, None while there is none. Raises `JobFailed`."""
        if found := self._get(output):
            return found
        if failure and (said := self._get(failure)):
            raise JobFailed(f"{failure}: {said.body[:_SHOWN].decode(errors='replace')}")
        return None

    def _get(self, location: str) -> Answer | None:
        bucket, key = _parted(location)
        try:
            found = self._s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_YET:
                return None
            raise NotAllowed(f"{location}: cannot be read: {error}") from None
        return Answer(body=found["Body"].read(), content_type=found["ContentType"])


def _parted(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    if not location.startswith("s3://") or not bucket or not key:
        raise BadInput(f"{location}: give a place in S3, as s3://bucket/prefix/")
    return bucket, key
