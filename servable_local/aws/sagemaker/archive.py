"""Where a model's data is: found when the model is made, fetched when an endpoint starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from botocore.exceptions import ClientError

from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker import prefix
from servable_local.aws.sagemaker.errors import StartError, ValidationError


def data_url(container: Mapping[str, Any]) -> str | None:
    """The s3:// address of the archive, or of a prefix of files, which ends with a slash.

    Raises `ValidationError` for data that is neither.
    """
    if "ModelDataSource" not in container:
        return container.get("ModelDataUrl")
    source = container["ModelDataSource"]["S3DataSource"]
    said = (source["S3DataType"], source["CompressionType"])
    uri = str(source["S3Uri"])
    if said == ("S3Object", "Gzip"):
        return uri
    if said == ("S3Prefix", "None"):
        if not uri.endswith("/"):
            raise ValidationError(f"S3Uri of an S3Prefix must end with a slash, not {uri!r}.")
        return uri
    raise ValidationError(
        "The embedded AWS serves one gzipped archive (S3DataType S3Object, CompressionType Gzip) or "
        f"files under a prefix (S3Prefix, None), not {said[0]} and {said[1]}."
    )


def check_exists(url: str, aws: Loopback) -> None:
    """CreateModel looks for the object, so a wrong address fails there and then."""
    bucket, key = _split(url)
    try:
        if key.endswith("/"):
            if not any(prefix.objects(aws.client("s3"), bucket, key)):
                raise ValidationError(f"Could not find model data at {url}.")
            return
        aws.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("403", "AccessDenied"):
            raise ValidationError(f"Could not access model data at {url}.") from None
        raise ValidationError(f"Could not find model data at {url}.") from None


def fetch(url: str, aws: Loopback, target: Path) -> Path:
    """Downloads beside and renames. Raises `StartError`."""
    bucket, key = _split(url)
    beside = target.with_name(target.name + ".part")
    try:
        if key.endswith("/"):
            prefix.archive(aws.client("s3"), bucket, key, beside)
        else:
            aws.client("s3").download_file(bucket, key, str(beside))
    except ClientError:
        raise StartError(
            f'Failed to download model data for container "container_1" from URL: "{url}". '
            "Please ensure that there is an object located at the URL and that the role passed "
            "to CreateModel has permissions to download the model."
        ) from None
    beside.replace(target)
    return target


def _split(url: str) -> tuple[str, str]:
    parts = urlparse(url)
    if parts.scheme in ("http", "https"):  # https://s3.REGION.amazonaws.com/BUCKET/KEY
        bucket, _, key = parts.path.lstrip("/").partition("/")
        return bucket, key
    return parts.netloc, parts.path.lstrip("/")
