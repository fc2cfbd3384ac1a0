"""Compare a model's archive in S3 byte for byte, and check that its image still gets patches."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from infra.catalog import images
from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from model_packaging.tree import compute_sha256
from servable.package.package import Package, pack_models
from servable.project.account import fetch_or_none
from servable.verify.deployed import UNKNOWN, DeployedStack
from servable.verify.difference import Difference, build_missing_difference

CHUNK_BYTES = 8 * 1024 * 1024
PINNED = "SERVABLE_ARTIFACT_SHA256"
APPROVED = "Approved"
_STOCK = re.compile(r"/tensorflow-inference:([0-9]+\.[0-9]+)")
IMAGE_RULE = "image-ended"
REMEDY = "new instances would load different bytes: find out who wrote them, delete them, and deploy again"


def compare_archives(
    stack: DeployedStack, loaded: ValidFile, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Compare the hash of every archive that a deployed model names.

    `note`: called with a text about each archive that can't be compared.
    """
    containers = [
        model.properties["PrimaryContainer"]
        for model in stack.find_resources("AWS::SageMaker::Model")
    ]
    packed = _pack_models(loaded, containers, note)
    for container in containers:
        name = container.get("ModelPackageName")
        if name is not None:
            yield from _compare_package(stack, str(name), container["Environment"][PINNED], note)
            continue
        single = container.get("ModelDataUrl", UNKNOWN)
        source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
        if single is UNKNOWN and not source:
            continue
        url = str(source or single)
        pinned = container.get("Environment", {}).get(PINNED)
        yield from _compare_objects(
            stack, url, {url: pinned} if pinned else _list_hashes(url, packed), note
        )


def _compare_package(
    stack: DeployedStack, name: str, pinned: str, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Compare a model package: it must exist, be approved, and have the pinned archive."""
    client = stack.account.client("sagemaker")
    package = fetch_or_none(client.describe_model_package, ModelPackageName=name)
    if package is None:
        yield build_missing_difference("model package", name)
        return
    status = package.get("ModelApprovalStatus")
    if status != APPROVED:
        remedy = "set artifact.model_package to an approved version, pin it, and deploy"
        key = "ModelApprovalStatus"
        yield Difference("model package", name, remedy, key, APPROVED, str(status))
    url = str(package["InferenceSpecification"]["Containers"][0].get("ModelDataUrl"))
    yield from _compare_objects(stack, url, {url: pinned}, note)


def _pack_models(
    loaded: ValidFile, containers: list[Mapping[str, Any]], note: Callable[[str], None]
) -> list[Package]:
    """Pack the models on this computer; the same inputs give the same bytes everywhere.

    Returns [] if all archives are pinned, or if packing fails.
    """
    if all(PINNED in container.get("Environment", {}) for container in containers):
        return []
    try:
        return list(pack_models(loaded))
    except PackagingError as wrong:
        note(f"the archive's bytes weren't compared: {wrong}")
        return []


def _list_hashes(url: str, packed: list[Package]) -> dict[str, str | None]:
    """Return each object's URL -> SHA-256, or None if this computer doesn't know the hash."""
    if not url.endswith("/"):
        by_key = {f"{archive.key}.tar.gz": archive.sha256 for archive in packed}
        return {url: by_key.get(url.rsplit("/", 1)[-1])}
    hashes: dict[str, str | None] = {}
    for archive in packed:
        if archive.path is not None:
            hashes[f"{url}{archive.model}.tar.gz"] = archive.sha256
        else:
            hashes |= {
                f"{url}{file.name}": compute_sha256(file.path) for file in archive.tree.files
            }
    return hashes


def _compare_objects(
    stack: DeployedStack, at: str, hashes: dict[str, str | None], note: Callable[[str], None]
) -> Iterator[Difference]:
    s3 = stack.account.client("s3")
    if not hashes:
        bucket, _, key = at.removeprefix("s3://").partition("/")
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        if not listed.get("KeyCount"):
            yield build_missing_difference("artefact", at)
    for url, sha256 in hashes.items():
        bucket, _, key = url.removeprefix("s3://").partition("/")
        actual = compute_digest(s3, bucket, key, whole=sha256 is not None)
        if actual is None:
            yield build_missing_difference("artefact", url)
        elif sha256 is None:
            note(
                f"{url}: exists; its bytes weren't compared: the sources here pack to a different archive"
            )
        elif actual != sha256:
            yield Difference("artefact changed", url, REMEDY, "sha256", sha256, actual)


def compute_digest(s3: Any, bucket: str, key: str, *, whole: bool = True) -> str | None:
    """Return the SHA-256 of an object in hex, or None if it doesn't exist.

    Without `whole`, the content isn't read, and the result for an existing object is "".
    """
    call = s3.get_object if whole else s3.head_object
    answer = fetch_or_none(call, Bucket=bucket, Key=key)
    if answer is None or not whole:
        return None if answer is None else ""
    sha256 = hashlib.sha256()
    for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
        sha256.update(chunk)
    return sha256.hexdigest()


def check_image_patches(
    stack: DeployedStack, environment: Environment, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Yield a difference for each image that no longer gets patches today."""
    today = datetime.now(UTC).date().isoformat()
    uris = {
        resource.properties["PrimaryContainer"]["Image"]
        for resource in stack.find_resources("AWS::SageMaker::Model")
        if "Image" in resource.properties["PrimaryContainer"]  # a model package has its own
    }
    for uri in sorted(map(str, uris)):
        version = _STOCK.search(uri)
        ended = images.find_end_of_patch(version[1], on=today) if version else None
        if version is None or ended is None:
            continue
        if reason := environment.acknowledge.get(IMAGE_RULE):
            note(f"patches of {uri} ended on {ended} or before; accepted: {reason}")
            continue
        yield Difference(
            "ended image",
            uri,
            f"set a newer tensorflow, or acknowledge.{IMAGE_RULE} with a reason",
            wanted=f"patched on {today}",
            found=f"patches ended on {ended} or before",
        )
