"""`servable pin ENV`: write the hash and size of its artifacts in S3 into its file."""

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click
import tomlkit

from model_packaging.beside import write_atomically
from model_packaging.existing_archive import UnpackedSize
from servable.project.account import AwsError, split_uri
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, Project, build_unknown_error

CHUNK_BYTES = 8 * 1024 * 1024


@click.command()
@ENVIRONMENT
@ENVIRONMENTS
@click.option(
    "--newest", is_flag=True, help="First update each model package to its newest approved version."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pin(environment: str, folder: str, newest: bool, as_json: bool) -> int:
    """Read every artifact that ENV names from S3, and write its hash and size into the file."""
    from infra.parameters.sources import list_environment_names, read_source as read_source  # noqa: I001

    root, files = (project := Project(folder)).root, project.files
    known = list_environment_names(files)
    if environment not in known:
        raise build_unknown_error(environment, known)
    source = read_source(root, files, environment)
    rows, region = [], source.values.get("region")
    for model, table in source.values.get("models", {}).items():
        if "artifact" not in table:
            continue
        given = table["artifact"]
        key = "model_package" if "model_package" in given else "uri"
        file = root / source.find_origin(("models", model, "artifact", key), "")
        uri, image, name = given.get("uri", ""), None, None
        try:
            with _explain_errors(environment, "your AWS configuration"):
                if key == "model_package":
                    sagemaker = boto3.client("sagemaker", region_name=region)
                    if newest:
                        name = find_newest_approved(sagemaker, given[key])
                    account = str(source.values.get("account"))
                    arn = build_package_arn(name or given[key], str(region), account)
                    uri, image = read_approved_package(sagemaker, arn)
                pinned = measure_archive(boto3.client("s3", region_name=region), uri)
                changed = write_pin(file, model, pinned, image=image, package=name)
        except PinError as wrong:
            click.echo(str(wrong), err=True)
            sys.exit(1)
        shown = file.relative_to(root).as_posix()
        rows.append({"file": shown, "model": model, "changed": changed, **pinned.__dict__})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        word = "written" if row["changed"] else "unchanged"
        what = f"{row['file']}: models.{row['model']}.artifact"
        click.echo(f"{what}: {row['sha256']}, {row['size_bytes']} bytes; {word}")
    if not rows:
        click.echo(f"{environment}: no model has an artifact, so there is nothing to pin")
    return 0


class PinError(Exception):
    """The error if nothing was written. `str()` is a whole sentence with the reason."""


@dataclass(frozen=True)
class PinnedArchive:
    """An archive as it is in S3 now."""

    uri: str
    sha256: str
    size_bytes: int
    size_gib: float | None
    """Unpacked size, rounded up; None if the object is not gzip."""


def build_package_arn(name: str, region: str, account: str) -> str:
    """Return the ARN of GROUP/VERSION in this account and Region; return an ARN unchanged."""
    if name.startswith("arn:"):
        return name
    partition = boto3.session.Session().get_partition_for_region(region)
    return f"arn:{partition}:sagemaker:{region}:{account}:model-package/{name}"


@contextmanager
def _explain_errors(problem: str, remedy: str) -> Iterator[None]:
    """Raise `PinError` for an error of AWS, or for a client that can't be created."""
    try:
        yield
    except AwsError as wrong:
        raise PinError(f"{problem}: {wrong}; check {remedy}") from None


def find_newest_approved(sagemaker: Any, name: str) -> str:
    """Return a group's newest approved version in the format of `name`. Raises `PinError`."""
    group = name.rpartition("/")[0]
    # A group of another account is named by its ARN.
    asked = group.replace(":model-package/", ":model-package-group/")
    remedy = "model_package and your credentials (sagemaker:ListModelPackages)"
    with _explain_errors(f"{group}: its versions cannot be listed", remedy):
        pages = sagemaker.get_paginator("list_model_packages").paginate(
            ModelPackageGroupName=asked, ModelApprovalStatus="Approved"
        )
        rows = [row for page in pages for row in page["ModelPackageSummaryList"]]
    if not rows:
        raise PinError(f"{group}: no version is approved; approve one in the model registry")
    return f"{group}/{max(int(row['ModelPackageVersion']) for row in rows)}"


def read_approved_package(sagemaker: Any, arn: str) -> tuple[str, str]:
    """Return the archive's S3 URI and the image of an approved model package.

    Raises `PinError` if the package doesn't exist, isn't approved, or isn't one container with
    one archive: CreateModel isn't known to reject packages that aren't approved.
    """
    remedy = "model_package and your credentials (sagemaker:DescribeModelPackage)"
    with _explain_errors(f"{arn}: cannot be read", remedy):
        package = sagemaker.describe_model_package(ModelPackageName=arn)
    status = package.get("ModelApprovalStatus")
    if status != "Approved":
        raise PinError(
            f"{arn}: its ModelApprovalStatus is {status}; allowed: Approved; approve it in the model "
            "registry, or choose a different version"
        )
    containers = package.get("InferenceSpecification", {}).get("Containers", [])
    if len(containers) != 1 or not str(containers[0].get("ModelDataUrl", "")).endswith(".tar.gz"):
        raise PinError(
            f"{arn}: it has {len(containers)} containers, or its ModelDataUrl isn't a .tar.gz; allowed: one "
            "container with one archive; register the model that way"
        )
    return str(containers[0]["ModelDataUrl"]), str(containers[0]["Image"])


def measure_archive(s3: Any, uri: str) -> PinnedArchive:
    """Return hash and sizes of an object in S3, read in chunks. Raises `PinError`."""
    bucket, key = split_uri(uri)
    digest, size_bytes, unpacked = hashlib.sha256(), 0, UnpackedSize()
    with _explain_errors(f"{uri}: cannot be read", "the uri and your credentials"):
        for chunk in s3.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
            unpacked.add_data(chunk)
    size_gib = math.ceil(unpacked.bytes / 2**30 * 1000) / 1000 if unpacked.bytes else None
    return PinnedArchive(uri, digest.hexdigest(), size_bytes, size_gib)


def write_pin(
    file: Path,
    model: str,
    pinned: PinnedArchive,
    *,
    image: str | None = None,
    package: str | None = None,
) -> bool:
    """Write the values into [models.NAME]; comments and order are kept.

    `package`: a different version of a model package; None: the one that the file names. `image`
    is the image of the package: an AWS image becomes the key tensorflow, any other the key image.
    Returns False if the file has these values already. Raises `PinError` if the file doesn't
    contain the artifact itself (its base does).
    """
    document: Any = tomlkit.parse(file.read_text(encoding="utf-8"))
    table = document.get("models", {}).get(model, {})
    if "artifact" not in table:
        problem = f"{file}: models.{model}.artifact isn't set in this file"
        raise PinError(f"{problem}; run `servable pin` for the file that sets it")
    every = {"model_package": package, **vars(pinned)}
    stock = re.search(r"/tensorflow-inference:([0-9]+\.[0-9]+)", image or "")
    values = {key: value for key, value in every.items() if value is not None}
    about = {"tensorflow": stock[1]} if stock else {"image": image} if image else {}
    if {**table["artifact"], **values} == table["artifact"] and {**table, **about} == table:
        return False
    table.update(about)
    table["artifact"].update(values)
    write_atomically(file, tomlkit.dumps(document).encode())
    return True
