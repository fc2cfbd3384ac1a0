"""Parts of a model: its archive in S3, byte for byte as packed, and its image, still patched."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from infra.catalog import images
from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from model_packaging.tree import sha256_of
from servable.package.package import Package, package
from servable.project.account import unless_absent
from servable.verify.deployed import UNKNOWN, DeployedStack
from servable.verify.difference import Difference, gone

CHUNK_BYTES = 8 * 1024 * 1024
PINNED = "SERVABLE_ARTIFACT_SHA256"
APPROVED = "Approved"
_STOCK = re.compile(r"/tensorflow-inference:([0-9]+\.[0-9]+)")
IMAGE_RULE = "image-ended"
REMEDY = (
    "new instances would serve other bytes: find out who wrote them, delete them, and deploy again"
)


def archives(
    stack: DeployedStack, loaded: ValidFile, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Hash every archive that a deployed model names. `note`: called with what is not compared."""
    containers = [
        model.properties["PrimaryContainer"] for model in stack.of("AWS::SageMaker::Model")
    ]
    packed = _packed(loaded, containers, note)
    for container in containers:
        name = container.get("ModelPackageName")
        if name is not None:
            yield from _package(stack, str(name), container["Environment"][PINNED], note)
            continue
        single = container.get("ModelDataUrl", UNKNOWN)
        source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
        if single is UNKNOWN and not source:
            continue
        url = str(source or single)
        pinned = container.get("Environment", {}).get(PINNED)
        yield from _objects(stack, url, {url: pinned} if pinned else _hashes(url, packed), note)


def _package(
    stack: DeployedStack, name: str, pinned: str, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Whether a model package is still there and approved, and its archive what was pinned."""
    client = stack.account.client("sagemaker")
    package = unless_absent(client.describe_model_package, ModelPackageName=name)
    if package is None:
        yield gone("model package", name)
        return
    status = package.get("ModelApprovalStatus")
    if status != APPROVED:
        yield Difference(
            kind="model package",
            resource=name,
            key="ModelApprovalStatus",
            wanted=APPROVED,
            found=str(status),
            remedy="name a version that is approved as artifact.model_package, pin it, and deploy",
        )
    url = str(package["InferenceSpecification"]["Containers"][0].get("ModelDataUrl"))
    yield from _objects(stack, url, {url: pinned}, note)


def _packed(
    loaded: ValidFile, containers: list[Mapping[str, Any]], note: Callable[[str], None]
) -> list[Package]:
    """Pack the models on this computer: the same inputs give the same bytes on any."""
    if all(PINNED in container.get("Environment", {}) for container in containers):
        return []
    try:
        return list(package(loaded))
    except PackagingError as wrong:
        note(f"the archive's bytes are not compared: {wrong}")
        return []


def _hashes(url: str, packed: list[Package]) -> dict[str, str | None]:
    """Return object's URL -> SHA-256; None if this computer does not know it."""
    if not url.endswith("/"):
        by_key = {f"{archive.key}.tar.gz": archive.sha256 for archive in packed}
        return {url: by_key.get(url.rsplit("/", 1)[-1])}
    hashes: dict[str, str | None] = {}
    for archive in packed:
        if archive.path is not None:
            hashes[f"{url}{archive.model}.tar.gz"] = archive.sha256
        else:
            hashes |= {f"{url}{file.name}": sha256_of(file.path) for file in archive.tree.files}
    return hashes


def _objects(
    stack: DeployedStack, at: str, hashes: dict[str, str | None], note: Callable[[str], None]
) -> Iterator[Difference]:
    s3 = stack.account.client("s3")
    if not hashes:
        bucket, _, key = at.removeprefix("s3://").partition("/")
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        if not listed.get("KeyCount"):
            yield gone("artefact", at)
    for url, sha256 in hashes.items():
        bucket, _, key = url.removeprefix("s3://").partition("/")
        actual = digest(s3, bucket, key, whole=sha256 is not None)
        if actual is None:
            yield gone("artefact", url)
        elif sha256 is None:
            note(f"{url}: is there; its bytes are not compared: the sources here pack to another")
        elif actual != sha256:
            yield Difference(
                kind="artefact changed",
                resource=url,
                key="sha256",
                wanted=sha256,
                found=actual,
                remedy=REMEDY,
            )


def digest(s3: Any, bucket: str, key: str, *, whole: bool = True) -> str | None:
    """Return the SHA-256 of an object in hex, or "" without `whole`; None if it does not exist."""
    call = s3.get_object if whole else s3.head_object
    answer = unless_absent(call, Bucket=bucket, Key=key)
    if answer is None or not whole:
        return None if answer is None else ""
    sha256 = hashlib.sha256()
    for chunk in answer["Body"].iter_chunks(CHUNK_BYTES):
        sha256.update(chunk)
    return sha256.hexdigest()


def patched_images(
    stack: DeployedStack, environment: Environment, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Check that each image still gets patches today."""
    today = datetime.now(UTC).date().isoformat()
    uris = {
        resource.properties["PrimaryContainer"]["Image"]
        for resource in stack.of("AWS::SageMaker::Model")
        if "Image" in resource.properties["PrimaryContainer"]  # a model package has its own
    }
    for uri in sorted(map(str, uris)):
        version = _STOCK.search(uri)
        ended = images.ended(version[1], on=today) if version else None
        if version is None or ended is None:
            continue
        if reason := environment.acknowledge.get(IMAGE_RULE):
            note(f"patches of {uri} ended on {ended} or before; accepted: {reason}")
            continue
        yield Difference(
            kind="ended image",
            resource=uri,
            wanted=f"patched on {today}",
            found=f"patches ended on {ended} or before",
            remedy=f"set a newer tensorflow, or acknowledge.{IMAGE_RULE} with a reason",
        )
