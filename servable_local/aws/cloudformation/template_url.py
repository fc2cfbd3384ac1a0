"""Where a TemplateURL points: bucket and key."""

from urllib.parse import unquote, urlparse

from botocore.exceptions import ClientError

from servable_local.aws.cloudformation.errors import ValidationError
from servable_local.aws.loopback import Loopback


def bucket_and_key(url: str) -> tuple[str, str]:
    """Both styles: `https://BUCKET.s3.REGION.amazonaws.com/KEY` and `http://HOST:PORT/BUCKET/KEY`."""
    parts = urlparse(url)
    host, path = parts.hostname or "", unquote(parts.path).lstrip("/")
    for mark in (".s3.", ".s3-"):
        if mark in host and "amazonaws" in host:
            return host.split(mark, 1)[0], path
    if host.endswith(".localhost"):
        return host.removesuffix(".localhost"), path
    bucket, _, key = path.partition("/")
    return bucket, key


def fetch(url: str, aws: Loopback) -> str:
    bucket, key = bucket_and_key(url)
    try:
        body: bytes = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        raise ValidationError(f"S3 error: {error.response['Error']['Message']} ({url})") from None
    return body.decode("utf-8")
