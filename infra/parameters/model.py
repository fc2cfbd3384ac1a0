"""[models.NAME]: the models, their code and requests, and the sizes that the file or the disk states."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from infra.parameters.rollout import CONTENT_TYPES
from infra.parameters.table import OR_TOKEN, KmsKeyArn, ProjectPath, RoleArn, Table
from infra.policy.sizing import ModelSizes


class Artifact(Table):
    """An archive in S3 that was packed elsewhere, identified by its hash; `servable pin ENV` writes the
    keys about a model package and its archive."""

    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (2026-11-22)
    model_package: str | None = Field(
        default=None,
        max_length=176,
        pattern=r"^(arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:model-package/)?"
        r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?/[1-9][0-9]{0,8}$",
    )
    """Approved version of a model package of SageMaker's registry: GROUP/VERSION, or the ARN of another
    account's. Write it alone; `servable pin ENV` adds the archive's uri and hash, and the image that the
    package names, and rejects a version that isn't approved. Default: none, `uri` is the model."""
    uri: Annotated[
        str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]/.+\.tar\.gz$"), OR_TOKEN
    ]
    """Location of the archive, for example s3://bucket/run-17/model.tar.gz."""
    sha256: Annotated[str, StringConstraints(to_lower=True, pattern=r"^[0-9a-fA-F]{64}$")]
    """SHA-256 of the archive: 64 hexadecimal digits. `servable pin ENV` writes it. Another hash creates
    a new model even under the same key, a change that CloudFormation alone would not see."""
    size_bytes: int | None = Field(default=None, ge=1)
    """Size of the archive, in bytes; `servable pin ENV` writes it."""
    size_gib: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Size of the unpacked files, in GiB, which the rules about memory and disk need. `servable pin ENV`
    writes it."""
    kms_key: KmsKeyArn | None = None
    """KMS key that the archive is encrypted with. Default: S3's own key. The key's policy must allow
    what docs/reference/permissions.md lists."""
    default_model: str | None = Field(default=None, pattern=r"^[^/\s\x00-\x1f]{1,255}$")
    """Folder of the archive whose model answers requests that name none, where it is not named as this
    table; "model" for versions at the archive's root. Default: the table's name."""


class Golden(Table):
    """A golden request: its answer is known, and `servable verify ENV` compares it with what the deployed
    endpoint answers."""

    request: ProjectPath
    """File with the request body, relative to the project. Its extension gives the content type: .json,
    .jsonl, .csv, .pb, .npy."""
    answer: ProjectPath | None = None
    """File with the expected answer, relative to the project. If omitted, any answer is accepted."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 1e-4
    """Tolerance of numbers in the answer, both relative and absolute. 1e-4 is above what float32 differs
    by between instance types."""

    @property
    def request_content_type(self) -> str:
        """Return the content type of the request."""
        return CONTENT_TYPES.get(PurePosixPath(self.request).suffix, "application/octet-stream")


class ModelTable(Table):
    saved_model: ProjectPath | None = None
    """Folder relative to the project with one folder per version (digits only), each with a
    saved_model.pb. With `version`, the folder is one SavedModel. Give exactly one of saved_model,
    artifact and multi_model."""
    version: int | None = Field(default=None, ge=0, le=2**63 - 1)
    """Version number of a `saved_model` that is one SavedModel and not a folder of versions. It is never
    guessed, because clients name versions by number."""
    artifact: Artifact | None = None
    """An existing archive in S3, in the container's layout. Give exactly one of saved_model, artifact
    and multi_model."""
    multi_model: list[str] | None = Field(default=None, min_length=1)
    """Models of this file that one multi-model endpoint serves, each as an archive under one prefix. A
    request names its model (TargetModel), which is then loaded. For many models with little traffic
    each. Give exactly one of saved_model, artifact and multi_model."""
    also_serves: list[str] = Field(default=[])
    """Other models of this file that are packed into the same archive. This model answers requests that
    name none, and its code serves all. Every model server loads all of them."""
    warm_up: list[ProjectPath] = Field(default=[], max_length=1000)
    """Golden requests (JSON files relative to the project) that the model server runs as warm-up before
    it takes traffic, so that the first caller does not wait for lazy initialization. A few of each
    size are enough."""
    golden: Golden | None = None
    """Golden request that `servable verify ENV` sends to the deployed endpoint. Default: none."""
    also_golden: list[Golden] = Field(default=[], max_length=100)
    """Further golden requests, each with its answer; `servable golden ENV --from-captured PLACE` chooses and
    writes them."""
    compression: Literal["gzip", "none"] = "gzip"
    """Form in S3. gzip: one model.tar.gz. none: every file uncompressed under a prefix, which starts
    large models faster, because nothing is unpacked; S3 stores 8 % more."""
    code: ProjectPath | None = None
    """Folder relative to the project with inference.py, or with transforms.py for Servable's own handler
    (docs/serving.md). Without code and handler, the container converts CSV and JSON lines itself, which
    takes about 145 bytes of memory per byte in 2.20, and starts no Python workers."""
    handler: Literal["servable"] | None = None
    """servable: Servable's own handler runs in front of the model, also without a transforms.py; it takes
    arrays and protobuf in bodies and calls the model server over gRPC. Default: the inference.py of
    `code`, or Servable's handler if `code` has only a transforms.py."""
    install: Literal["vendored", "at start"] = "vendored"
    """Installation of code/requirements.txt. vendored: as wheels in the archive, locked by
    `servable package ENV`. at start: by pip in every container, which needs the internet and slows
    every scale-out."""
    tensorflow: str | None = None
    """TensorFlow version of the container image, for example 2.20. Default: the newest image that the
    variant's instance type can run."""
    image: str | None = Field(default=None, min_length=1)
    """Address of your own container image in ECR, with tag or digest. It must understand the variables of
    AWS's image. Default: AWS's image of the TensorFlow version."""
    execution_role: RoleArn | None = None
    """ARN of a role of this account that SageMaker assumes for this model. Default:
    `endpoint.execution_role`, or else a role that the stack creates."""
    network_isolation: bool = False
    """Whether the container is without network access, S3 included. SageMaker still fetches the model."""
    server_memory_gib: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Measured resident memory of one model server with the model loaded. Default: the size of the
    model's files plus 0.3 GiB."""
    worker_memory_mib: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Measured memory of one Gunicorn worker. Default: 128 MiB."""

    def default_name(self, table: str) -> str | None:
        """Return the name in the container of the model that answers requests that name none.

        Returns None if each names one. `table` is the model's name in the file.
        """
        if self.multi_model is not None:
            return None
        return (self.artifact and self.artifact.default_model) or table

    @property
    def golden_requests(self) -> dict[str, Golden]:
        """Every golden request, by its key below the model's."""
        first = {} if self.golden is None else {"golden": self.golden}
        return first | {f"also_golden.{at}": other for at, other in enumerate(self.also_golden)}


BYTES_PER_GIB = 2**30
MIB_PER_GIB = 1024


def compute_model_sizes(models: Mapping[str, ModelTable], name: str) -> ModelSizes:
    """Return the sizes of a model, with those of the models in the same archive.

    A multi_model has no size, because a container has only the models that requests named.
    """
    model, several = models[name], models[name].multi_model is not None
    worker_mib = model.worker_memory_mib
    packed_here = ModelSizes(
        model_gib=None if several else _sum_archive_gib(models, name),
        compressed=model.compression == "gzip",
        # In multi-model mode Gunicorn always runs: it loads and unloads the models.
        has_code=several or model.code is not None or model.handler is not None,
        multi_model=several,
        measured_server_gib=model.server_memory_gib,
        measured_worker_gib=None if worker_mib is None else worker_mib / MIB_PER_GIB,
    )
    if (artifact := model.artifact) is None:
        return packed_here
    packed_gib = None if artifact.size_bytes is None else artifact.size_bytes / BYTES_PER_GIB
    return replace(packed_here, model_gib=artifact.size_gib, packed_gib=packed_gib, has_code=None)


def _sum_archive_gib(models: Mapping[str, ModelTable], name: str) -> float | None:
    """Return the size of all models in one archive in GiB, or None if one size is unknown."""
    members = [models.get(member) for member in [name, *models[name].also_serves]]
    folders = [model.saved_model for model in members if model and model.saved_model]
    sizes = [measure_folder_gib(folder.path) for folder in folders]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(members) else None


def measure_folder_gib(folder: Path) -> float | None:
    """Return the size of all files of all versions in GiB, which the container loads.

    Returns None if the folder is empty or isn't readable, which a rule reports.
    """
    try:
        files = (path for path in folder.rglob("*") if path.is_file())
        total = sum(file.stat().st_size for file in files)
    except (OSError, ValueError):  # ValueError: not a valid path, since Python 3.13
        return None
    return total / BYTES_PER_GIB if total else None
