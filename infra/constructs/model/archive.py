"""A model's archive in S3: packed, as separate files, several under a prefix, or an existing one.

The CDK CLI packs and publishes it only when it deploys, by the command of an asset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from infra.constructs.file_asset import add_file_asset
from infra.packing import build_archive_inputs, combine_keys
from infra.parameters.environment import Environment
from infra.parameters.model import Artifact
from model_packaging.archive import build_command
from model_packaging.beside import ARCHIVES, MADE
from model_packaging.inputs import ArchiveInputs, compute_key, compute_key_tree_and_hashes
from model_packaging.unpacked_file import build_command as upload

# Stands for the archive of a model package, which only the registry knows.
UNKNOWN = "s3://known-to-the-registry/model.tar.gz"


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """How the files of a model are packed and stored."""

    version: int = 1
    """Version number of a folder that is one SavedModel. Default: 1."""
    install: Literal["vendored", "at start"] = "at start"
    """Installation of code/requirements.txt. "at start": by pip in every container, which needs the
    internet. "vendored": from wheels that `servable package` has locked. Default: "at start"."""
    compression: Literal["gzip", "none"] = "gzip"
    """gzip: one model.tar.gz. none: every file uncompressed under a prefix. Default: gzip."""
    keys: Sequence[kms.IKey] = ()
    """KMS keys of the bucket of `cdk bootstrap`, if it has some. Default: S3's own key."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One archive, one prefix of files, or one prefix of archives."""

    fingerprint: str
    """SHA-256 over the inputs of the archive, or over its bytes."""
    url: str
    """s3://… address; that of a prefix ends with a slash."""
    objects: str
    """ARN of the objects to read; that of a prefix ends with a star. Empty if only the registry knows it."""
    data: Mapping[str, Any]
    """The properties of SageMaker's container definition that name the archive."""
    listed: tuple[str, str] | None = None
    """The bucket's ARN and the prefix to list; None if the archive is one object."""
    key_arns: Sequence[str] = ()
    """KMS keys that its objects may be encrypted with, in addition to S3's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the model about the archive, in addition to the container's settings."""


def create_model_archive(
    stack: cdk.Stack, environment: Environment, name: str, root: Path
) -> Archive:
    """Create the archive of a model. `root` is the project. Raises `PackagingError`."""
    model, made, archives = environment.models[name], root / MADE, root / ARCHIVES
    if model.artifact is not None:
        return _describe_pinned_archive(stack, model.artifact)
    if model.multi_model is not None:
        members = {
            member: build_archive_inputs(environment, member, root, at_root=True)
            for member in sorted(model.multi_model)
        }
        archive = _create_archive_group(stack, members, made, archives=archives)
    elif model.compression == "none":
        archive = _create_unpacked_files(stack, build_archive_inputs(environment, name, root), made)
    else:
        inputs = build_archive_inputs(environment, name, root)
        # The key changes whenever the content changes. The synthesizer is called directly because
        # aws_s3_assets.Asset would name the object <hash>.gz, and SageMaker documents .tar.gz.
        fingerprint = compute_key(inputs, cache=made)
        packing = build_command(inputs, expected_key=fingerprint, archives=archives)
        said = f"model.tar.gz of {inputs.name}"
        url = add_file_asset(stack, f"{fingerprint}.tar.gz", packing, said).s3_object_url
        objects, data = build_s3_arn(stack, url), {"model_data_url": url}
        archive = Archive(fingerprint=fingerprint, url=url, objects=objects, data=data)
    return replace(archive, key_arns=environment.endpoint.archive_kms_keys)


def _create_archive_group(
    stack: cdk.Stack, inputs: Mapping[str, ArchiveInputs], made: Path, *, archives: Path
) -> Archive:
    """Create one NAME.tar.gz per model for multi-model mode. A request names its TargetModel.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/create-multi-model-endpoint.html
    """
    keys = {name: compute_key(member, cache=made) for name, member in inputs.items()}
    commands = {
        f"{name}.tar.gz": build_command(inputs[name], expected_key=digest, archives=archives)
        for name, digest in keys.items()
    }
    archive = _publish_files(stack, combine_keys(keys), commands, of="several models")
    return replace(archive, data={"mode": "MultiModel", "model_data_url": archive.url})


def _create_unpacked_files(stack: cdk.Stack, inputs: ArchiveInputs, made: Path) -> Archive:
    """Create assets for the uncompressed files of an archive; empty folders are omitted.

    Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/large-model-inference-uncompressed.html
    """
    fingerprint, tree, hashes = compute_key_tree_and_hashes(inputs, cache=made)
    commands = {file.name: upload(file.path, sha256=hashes[file.name]) for file in tree.files}
    archive = _publish_files(stack, fingerprint, commands, of=inputs.name)
    source = sagemaker.CfnModel.S3DataSourceProperty(
        compression_type="None", s3_data_type="S3Prefix", s3_uri=archive.url
    )
    data = sagemaker.CfnModel.ModelDataSourceProperty(s3_data_source=source)
    return replace(archive, data={"model_data_source": data})


def _describe_pinned_archive(stack: cdk.Stack, artifact: Artifact) -> Archive:
    """Return an archive that already exists in S3; nothing is packed or published.

    Its hash is one of the model's variables, so that a different hash creates a different model
    even under the same key; CloudFormation alone would see no change and deploy nothing.
    """
    data = {"model_data_url": artifact.uri}
    if artifact.model_package is not None:
        data = {"model_package_name": build_model_package_arn(stack, artifact.model_package)}
    return Archive(
        fingerprint=artifact.sha256,
        url=artifact.uri,
        objects=build_s3_arn(stack, artifact.uri) if artifact.uri != UNKNOWN else "",
        data=data,
        key_arns=[artifact.kms_key] if artifact.kms_key else [],
        variables={"SERVABLE_ARTIFACT_SHA256": artifact.sha256},
    )


def build_model_package_arn(stack: cdk.Stack, name: str) -> str:
    """Return the ARN of GROUP/VERSION in the stack's account; an ARN stays as it is.

    CreateModel finds a version only by its ARN.
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-deploy.html (2026-11-22)
    """
    if name.startswith("arn:"):
        return name
    return stack.format_arn(service="sagemaker", resource="model-package", resource_name=name)


def _publish_files(
    stack: cdk.Stack, fingerprint: str, commands: Mapping[str, Sequence[str]], *, of: str
) -> Archive:
    """Add an asset for the output of each command, under the prefix s3://assets/FINGERPRINT/.

    Different content gets a different prefix, so that an old fleet and a rollback still find their
    files. Returns the prefix without its `data`.
    """
    for name, made_by in commands.items():
        asset = add_file_asset(stack, f"{fingerprint}/{name}", made_by, f"{name} of {of}")
    prefix = asset.object_key.removesuffix(name)
    bucket_arn = build_s3_arn(stack, asset.bucket_name)
    return Archive(
        fingerprint=fingerprint,
        url=f"s3://{asset.bucket_name}/{prefix}",
        objects=f"{bucket_arn}/{prefix}*",
        data={},
        listed=(bucket_arn, prefix),
    )


def build_s3_arn(stack: cdk.Stack, uri: str) -> str:
    """Return the ARN of a bucket, an object, or a pattern of objects."""
    return f"arn:{stack.partition}:s3:::{uri.removeprefix('s3://')}"
