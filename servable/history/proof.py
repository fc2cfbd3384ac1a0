"""Before going back: archive and image are still there, and the same."""

import re
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.catalog import images
from model_packaging.refusal import PackagingError
from servable.aws_account import Account, absent
from servable.verify.artefact import digest


def image(one: dict[str, Any], settings: Any, account: Account, notes: list[str]) -> None:
    """A stock image is known to the catalog; one of one's own is asked for."""
    uri = one["image"]
    own = settings["models"][one["model"]].get("image")
    if own is None:
        version, region = one["tensorflow"], settings["region"]
        if version not in images.versions() or region not in images.regions(version):
            problem = f"the image of TensorFlow {version} is not known in {region} any more"
            raise PackagingError(Path(uri), problem, "name another tensorflow, and deploy that")
        settings["models"][one["model"]]["tensorflow"] = version
        return
    parsed = images.own_image(own)
    if parsed is None:
        return
    which = re.search(r"@(sha256:[0-9a-f]{64})$", own)
    asked = {"imageDigest": which[1]} if which else {"imageTag": parsed.tag}
    try:
        account.client("ecr").describe_images(
            registryId=parsed.account, repositoryName=parsed.repository, imageIds=[asked]
        )
    except ClientError as error:
        if absent(error):
            problem = "this image is not in its repository any more"
            raise PackagingError(Path(uri), problem, "push it again") from None
        notes.append(f"{uri}: could not be asked for: {error}")


def archive(account: Account, url: str, sha256: str | None) -> str:
    """Its hash. Raises `PackagingError` where it is gone, or another."""
    bucket, _, name = url.removeprefix("s3://").partition("/")
    s3 = account.client("s3")
    found = digest(s3, bucket, name)
    if found is None:
        raise PackagingError(
            Path(url), "the archive is not there any more", _way_out(s3, bucket, name)
        )
    if sha256 is not None and found != sha256:
        problem = f"the archive is another: {found}, then {sha256}"
        raise PackagingError(Path(url), problem, "restore the object's earlier version")
    return found


def _way_out(s3: Any, bucket: str, name: str) -> str:
    """A versioned bucket keeps what was deleted, for as long as its lifecycle says."""
    try:
        listed = s3.list_object_versions(Bucket=bucket, Prefix=name)
    except ClientError:
        listed = {}
    kept = [one for one in listed.get("Versions", []) if one["Key"] == name]
    if kept:
        version = kept[0]["VersionId"]
        return (
            f"the bucket still has its version {version}: `aws s3api copy-object --bucket {bucket} "
            f"--key {name} --copy-source '{bucket}/{name}?versionId={version}'`, then again"
        )
    return "check out the record's revision, where its sources are, and deploy that"
