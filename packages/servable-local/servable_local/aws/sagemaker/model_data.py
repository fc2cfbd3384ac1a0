"""A model's data: located when the model is made, fetched when an endpoint starts."""

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.container import VariantStartError


def keys_under(s3: Any, bucket: str, prefix: str) -> Iterator[str]:
    """The keys under the prefix."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (item["Key"] for item in page.get("Contents", []))


def write_archive(s3: Any, bucket: str, prefix: str, target: Path) -> None:
    """Writes what lies under the prefix as the archive that it would have been.

    SageMaker mounts such a model without unpacking; here a container takes one archive, which is
    unpacked at once: compressing it would only take time.
    """
    with tarfile.open(target, "w:gz", compresslevel=0) as tar:
        for key in keys_under(s3, bucket, prefix):
            answer = s3.get_object(Bucket=bucket, Key=key)
            member = tarfile.TarInfo(key.removeprefix(prefix))
            member.size = answer["ContentLength"]
            tar.addfile(member, answer["Body"])


def data_url(container: Mapping[str, Any]) -> str | None:
    """The s3:// address of the archive, or of a prefix of files, which ends with a slash.

    Raises `SageMakerError` for data that is neither.
    """
    if "ModelDataSource" not in container:
        return container.get("ModelDataUrl")
    source = container["ModelDataSource"]["S3DataSource"]
    kind, compression = source["S3DataType"], source["CompressionType"]
    uri = str(source["S3Uri"])
    if (kind, compression) == ("S3Object", "Gzip"):
        return uri
    if (kind, compression) == ("S3Prefix", "None"):
        if not uri.endswith("/"):
            raise SageMakerError(f"S3Uri of an S3Prefix must end with a slash, not {uri!r}.")
        return uri
    raise SageMakerError(
        "the local AWS serves one gzipped archive (S3DataType S3Object, CompressionType Gzip) or "
        f"files under a prefix (S3Prefix, None), not {kind} and {compression}."
    )


def of_package(container: Mapping[str, Any], aws: Loopback) -> Mapping[str, Any]:
    """The container with what its model package names: image, data, and variables that it does not set.

    Raises `SageMakerError` for a package that is not there. That CreateModel refuses a version that is
    not approved is documented nowhere, and not done here.
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-deploy.html (2026-11-22)
    """
    name = container.get("ModelPackageName")
    if name is None:
        return container
    try:
        package = aws.client("sagemaker").describe_model_package(ModelPackageName=name)
    except ClientError:
        raise SageMakerError(f"Could not find model package {name}.") from None
    (packaged,) = package["InferenceSpecification"]["Containers"]
    variables = {**packaged.get("Environment", {}), **container.get("Environment", {})}
    return {**packaged, **container, "Environment": variables}


def check_model_data(url: str, aws: Loopback) -> None:
    """CreateModel looks for the object, so a wrong address fails there and then."""
    bucket, key = s3_location(url)
    problem = "find"
    try:
        if not key.endswith("/"):
            aws.client("s3").head_object(Bucket=bucket, Key=key)
            return
        if any(keys_under(aws.client("s3"), bucket, key)):
            return
    except ClientError as error:
        if error.response["Error"]["Code"] in ("403", "AccessDenied"):
            problem = "access"
    raise SageMakerError(f"Could not {problem} model data at {url}.")


def fetch_model_data(url: str, aws: Loopback, target: Path) -> Path:
    """Makes the file `target`: a hard link to the object's, or an archive of files under a prefix.

    Raises `VariantStartError`.
    """
    bucket, key = s3_location(url)
    beside = target.with_name(target.name + ".part")
    beside.unlink(missing_ok=True)
    try:
        if key.endswith("/"):
            write_archive(aws.client("s3"), bucket, key, beside)
        else:
            # Asked for, so that a bucket's policy has its say: its last byte will do.
            aws.client("s3").get_object(Bucket=bucket, Key=key, Range="bytes=-1")["Body"].read()
            # Imported here: moto's S3 is there as soon as it has an object.
            from servable_local.aws.moto_patches.objects import content_of

            content_of(aws.account, aws.region, bucket, key).link(beside)
    except ClientError:
        raise VariantStartError(
            f'Failed to download model data for container "container_1" from URL: "{url}". '
            "Please ensure that there is an object located at the URL and that the role passed "
            "to CreateModel has permissions to download the model."
        ) from None
    beside.replace(target)
    return target


def s3_location(url: str) -> tuple[str, str]:
    """Bucket and key of `s3://BUCKET/KEY`, or of `https://s3.REGION.amazonaws.com/BUCKET/KEY`."""
    scheme, _, rest = url.partition("://")
    where = rest if scheme == "s3" else rest.partition("/")[2]
    bucket, _, key = where.partition("/")
    return bucket, key
