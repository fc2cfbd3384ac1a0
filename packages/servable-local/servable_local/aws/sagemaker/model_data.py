"""A model's data: located when the model is created, downloaded when an endpoint starts.

In multi-model mode, a request names its model; the first request downloads and loads it.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html
"""

import hashlib
import http.client
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError, ValidationError
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.container import Container, VariantStartError

_LOAD_TIMEOUT_SECONDS = 300.0
_ALREADY_LOADED = 409


def _hash_name(target: str) -> str:
    # Like SageMaker, use a hash, because a target may contain slashes.
    return hashlib.sha256(target.encode()).hexdigest()[:32]


class TargetModels:
    """The models of one container, from archives under an S3 prefix. None is unloaded for memory."""

    def __init__(self, container: Container, prefix: str, *, aws: Loopback, folder: Path) -> None:
        self._container, self._prefix = container, prefix
        self._aws, self._folder = aws, folder
        # A restarted container has a different URL and no loaded models.
        self._loaded: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def prepare_path(self, target: str) -> str:
        """Return a target model's path, and load it if needed. Raises `ValidationError`."""
        name = _hash_name(target)
        with self._lock:
            key = (self._container.url, name)
            if key not in self._loaded:
                self._load_model(target, name)
                self._loaded.add(key)
        return f"/models/{name}/invoke"

    def mark_unloaded(self, target: str) -> None:
        """Mark a model as unloaded after a 404, so that the next request loads it again.

        Since 2.20 the image unloads a model whose model server has ended.
        """
        with self._lock:
            self._loaded.discard((self._container.url, _hash_name(target)))

    def _load_model(self, target: str, name: str) -> None:
        # Imported here, so that the server starts without TensorFlow.
        from servable_tensors.archive import ArchiveError, unpack

        self._folder.mkdir(parents=True, exist_ok=True)
        model = self._folder / name / "model"
        if not model.exists():
            url = f"{self._prefix.rstrip('/')}/{target.lstrip('/')}"
            fetched = self._folder / f"{name}.tar.gz"
            try:
                fetch_model_data(url, self._aws, fetched)
                unpack(fetched, model)
            except VariantStartError:
                bucket, object_key = parse_s3_location(url)
                raise ValidationError(
                    f"Failed to download model data(bucket: {bucket}, key: {object_key}). Please "
                    "ensure that there is an object located at the URL and that the role passed "
                    "to CreateModel has permissions to download the model."
                ) from None
            except ArchiveError as error:
                raise ValidationError(f"Failed to unpack {target}: {error}") from None
        body = json.dumps({"model_name": name, "url": str(model)}).encode()
        try:
            headers = {"Content-Type": "application/json"}
            status, _, answer = self._container.post(
                "/models", body, headers, timeout_seconds=_LOAD_TIMEOUT_SECONDS
            )
        except (OSError, http.client.HTTPException) as error:
            raise ValidationError(f"{target} could not be loaded: {error}") from None
        if not 200 <= status < 300 and status != _ALREADY_LOADED:
            said = answer.decode(errors="replace")
            raise ValidationError(f"{target} could not be loaded: {said}")


def list_keys(s3: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Yield the keys under the prefix."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (item["Key"] for item in page.get("Contents", []))


def write_archive(s3: Any, bucket: str, prefix: str, target: Path) -> None:
    """Write the files under the prefix as one archive.

    SageMaker mounts such a model without unpacking; here a container takes one archive, which is
    unpacked at once: compressing it would only take time.
    """
    with tarfile.open(target, "w:gz", compresslevel=0) as tar:
        for key in list_keys(s3, bucket, prefix):
            answer = s3.get_object(Bucket=bucket, Key=key)
            member = tarfile.TarInfo(key.removeprefix(prefix))
            member.size = answer["ContentLength"]
            tar.addfile(member, answer["Body"])


def find_data_url(container: Mapping[str, Any]) -> str | None:
    """Return the s3:// URL of the archive, or of a prefix of files, which ends with a slash.

    Raises `SageMakerError` for data that is neither.
    """
    if "ModelDataSource" not in container:
        return container.get("ModelDataUrl")
    source = container["ModelDataSource"]["S3DataSource"]
    kind, compression = source["S3DataType"], source["CompressionType"]
    uri = str(source["S3Uri"])
    if (kind, compression) not in (("S3Object", "Gzip"), ("S3Prefix", "None")):
        raise SageMakerError(
            "the local AWS serves one gzipped archive (S3DataType S3Object, CompressionType Gzip) or "
            f"files under a prefix (S3Prefix, None), not {kind} and {compression}."
        )
    if kind == "S3Prefix" and not uri.endswith("/"):
        raise SageMakerError(f"S3Uri of an S3Prefix must end with a slash, not {uri!r}.")
    return uri


def merge_package(container: Mapping[str, Any], aws: Loopback) -> Mapping[str, Any]:
    """Return the container with its model package's image, data, and missing variables.

    Raises `SageMakerError` for a missing package. A version that isn't approved is accepted: no
    documentation says that CreateModel rejects it.
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
    """Raise `SageMakerError` for missing data: CreateModel reports a wrong URL at once."""
    bucket, key = parse_s3_location(url)
    problem = "find"
    try:
        if not key.endswith("/"):
            aws.client("s3").head_object(Bucket=bucket, Key=key)
            return
        if any(list_keys(aws.client("s3"), bucket, key)):
            return
    except ClientError as error:
        if error.response["Error"]["Code"] in ("403", "AccessDenied"):
            problem = "access"
    raise SageMakerError(f"Could not {problem} model data at {url}.")


def fetch_model_data(url: str, aws: Loopback, target: Path) -> Path:
    """Create `target`: a hard link to the object's file, or an archive of files under a prefix.

    Raises `VariantStartError`.
    """
    bucket, key = parse_s3_location(url)
    partial = target.with_name(target.name + ".part")
    partial.unlink(missing_ok=True)
    try:
        if key.endswith("/"):
            write_archive(aws.client("s3"), bucket, key, partial)
        else:
            # Read the last byte, so that a bucket policy can deny access.
            aws.client("s3").get_object(Bucket=bucket, Key=key, Range="bytes=-1")["Body"].read()
            # Imported here, because moto's S3 is only imported on its first use.
            from servable_local.aws.moto_patches.s3 import find_content

            find_content(aws.account, aws.region, bucket, key).link(partial)
    except ClientError:
        raise VariantStartError(
            f'Failed to download model data for container "container_1" from URL: "{url}". '
            "Please ensure that there is an object located at the URL and that the role passed "
            "to CreateModel has permissions to download the model."
        ) from None
    partial.replace(target)
    return target


def build_encryption(kms_key: str | None) -> dict[str, str]:
    """Return the arguments with which S3 encrypts an object; none without a key."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}


def parse_s3_location(url: str) -> tuple[str, str]:
    """Parse `s3://BUCKET/KEY`, or `https://s3.REGION.amazonaws.com/BUCKET/KEY`."""
    scheme, _, rest = url.partition("://")
    where = rest if scheme == "s3" else rest.partition("/")[2]
    bucket, _, key = where.partition("/")
    return bucket, key
