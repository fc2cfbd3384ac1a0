"""Compare a model's archive in S3 byte for byte, and check that its image still gets patches."""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from infra.catalog import images
from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from model_packaging.tree import compute_sha256
from servable.package.package import Package, pack_models
from servable.project.account import fetch_or_none, split_uri
from servable.verify.deployed import UNKNOWN, DeployedStack
from servable.verify.difference import Difference, build_missing_difference
from servable.verify.endpoint import MODEL

CHUNK_BYTES = 8 * 1024 * 1024
PINNED = "SERVABLE_ARTIFACT_SHA256"
APPROVED = "Approved"
_STOCK = re.compile(r"/tensorflow-inference:([0-9]+\.[0-9]+)")
IMAGE_RULE = "image-ended"
REMEDY = "new instances would load different bytes: find out who wrote them, delete them, and deploy again"


def compare_archives(stack: DeployedStack, loaded: ValidFile) -> Iterator[Difference | str]:
    """Compare the hash of every archive that a deployed model names.

    Yields a note (str) for each archive that can't be compared.
    """
    containers = [model.properties["PrimaryContainer"] for model in stack.find_resources(MODEL)]
    packed: list[Package] = []
    # Pack the models on this computer: the same inputs give the same bytes everywhere.
    if not all(PINNED in container.get("Environment", {}) for container in containers):
        try:
            packed = list(pack_models(loaded))
        except PackagingError as wrong:
            yield f"the archive's bytes weren't compared: {wrong}"
    for container in containers:
        pinned = container.get("Environment", {}).get(PINNED)
        url = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
        url = url or container.get("ModelDataUrl", UNKNOWN)
        if (package := container.get("ModelPackageName")) is not None:
            yield from _compare_package(stack, str(package), pinned)
        elif url is not UNKNOWN:
            hashes = {str(url): pinned} if pinned else _list_hashes(str(url), packed)
            yield from _compare_objects(stack, str(url), hashes)


def _compare_package(stack: DeployedStack, name: str, pinned: str) -> Iterator[Difference | str]:
    """Compare a model package: it must exist, be approved, and have the pinned archive."""
    package = stack.fetch("sagemaker", "describe_model_package", ModelPackageName=name)
    if package is None:
        yield build_missing_difference("model package", name)
        return
    status, key = package.get("ModelApprovalStatus"), "ModelApprovalStatus"
    if status != APPROVED:
        remedy = "set artifact.model_package to an approved version, pin it, and deploy"
        yield Difference("model package", name, remedy, key, APPROVED, str(status))
    url = str(package["InferenceSpecification"]["Containers"][0].get("ModelDataUrl"))
    yield from _compare_objects(stack, url, {url: pinned})


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
            files = archive.tree.files
            hashes |= {f"{url}{file.name}": compute_sha256(file.path) for file in files}
    return hashes


def _compare_objects(
    stack: DeployedStack, at: str, hashes: dict[str, str | None]
) -> Iterator[Difference | str]:
    s3 = stack.account.client("s3")
    if not hashes:
        bucket, key = split_uri(at)
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        if not listed.get("KeyCount"):
            yield build_missing_difference("artefact", at)
    for url, sha256 in hashes.items():
        actual = compute_digest(s3, url, whole=sha256 is not None)
        if actual is None:
            yield build_missing_difference("artefact", url)
        elif sha256 is None:
            yield f"{url}: exists; its bytes weren't compared: the sources here pack to a different archive"
        elif actual != sha256:
            yield Difference("artefact changed", url, REMEDY, "sha256", sha256, actual)


def compute_digest(s3: Any, url: str, *, whole: bool = True) -> str | None:
    """Return the SHA-256 of an object in hex, or None if it doesn't exist.

    Without `whole`, the content isn't read, and the result for an existing object is "".
    """
    call = s3.get_object if whole else s3.head_object
    bucket, key = split_uri(url)
    answer = fetch_or_none(call, Bucket=bucket, Key=key)
    if answer is None or not whole:
        return None if answer is None else ""
    sha256 = hashlib.sha256()
    for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
        sha256.update(chunk)
    return sha256.hexdigest()


def check_image_patches(
    stack: DeployedStack, environment: Environment
) -> Iterator[Difference | str]:
    """Yield a difference, or a note if it is accepted, for each image that no longer gets patches."""
    today = datetime.now(UTC).date().isoformat()
    containers = [model.properties["PrimaryContainer"] for model in stack.find_resources(MODEL)]
    # A model package has its own image.
    for uri in sorted({str(each["Image"]) for each in containers if "Image" in each}):
        version = _STOCK.search(uri)
        ended = images.find_end_of_patch(version[1], on=today) if version else None
        if ended is None:
            continue
        if reason := environment.acknowledge.get(IMAGE_RULE):
            yield f"patches of {uri} ended on {ended} or before; accepted: {reason}"
        else:
            remedy = f"set a newer tensorflow, or acknowledge.{IMAGE_RULE} with a reason"
            sides = f"patched on {today}", f"patches ended on {ended} or before"
            yield Difference("ended image", uri, remedy, "", *sides)
