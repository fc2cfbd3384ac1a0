"""[models.NAME]: what is served, and what the file and the disk say of its size."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from infra.parameters.table import RoleArn, Table
from infra.policy.sizing import Served


class Artifact(Table):
    """An archive that something else packed, named by its content."""

    uri: str = Field(pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]/.+\.tar\.gz$")
    """Where it lies, as s3://bucket/run-17/model.tar.gz."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of its bytes, 64 hex digits; `servable pin ENV` writes it. Another hash makes a new model,
    also under the same key: CloudFormation alone would not see the change."""
    size_bytes: int | None = Field(default=None, ge=1)
    """Of the archive; `servable pin ENV` writes it."""
    size_gib: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Of what is in it, unpacked, in GiB: whether it fits is then checked. `servable pin ENV`
    writes it."""


class Golden(Table):
    """A request whose answer is known: `servable verify ENV` sends it to what is deployed."""

    request: str = Field(min_length=1)
    """File with the body, relative to the project. Its name's end says what it is: .json, .jsonl,
    .csv, .pb, .npy."""
    answer: str | None = Field(default=None, min_length=1)
    """File with the answer to it, likewise. Left out, it must be answered, with whatever it be."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 1e-4
    """How far a number may be off, relative to it and absolute. 1e-4 is above what float32 loses
    between machines."""


class Model(Table):
    saved_model: str | None = Field(default=None, min_length=1)
    """Folder of the SavedModel, relative to the project: holds one folder per version, all digits,
    each with saved_model.pb. With `version`, one SavedModel itself. This, artifact or
    multi_model."""
    version: int | None = Field(default=None, ge=1, le=2**63 - 1)
    """The version that `saved_model` becomes where it is one SavedModel, and no folder of versions.
    Never guessed: clients ask for versions by number."""
    artifact: Artifact | None = None
    """An archive in S3 that is there already, in the container's layout. This, saved_model or
    multi_model."""
    multi_model: list[str] | None = Field(default=None, min_length=1)
    """Models of this file behind one endpoint, one archive each under one prefix; a request names
    the one it wants (TargetModel), and it is loaded then. For many models that are seldom asked
    for. This, saved_model or artifact."""
    also_serves: list[str] = Field(default=[])
    """Other models of this file that go into the same archive. This one answers requests that name
    none; its code serves all. Every model server loads all of them."""
    warm_up: list[Annotated[str, Field(min_length=1)]] = Field(default=[], max_length=1000)
    """Golden requests, JSON files relative to the project, that the model server answers for itself
    before it takes any from outside: the first caller does not wait for what is initialised at
    first use. A few of each size are enough."""
    golden: Golden | None = None
    """What `servable verify ENV` asks of it once it is deployed. Left out, nothing."""
    compression: Literal["gzip", "none"] = "gzip"
    """How it lies in S3. gzip: one model.tar.gz. none: each file as it is under a prefix, which
    starts large models faster, since nothing is unpacked; S3 holds 8 % more."""
    code: str | None = Field(default=None, min_length=1)
    """Folder with inference.py, or with transforms.py for Servable's own handler (docs/serving.md),
    relative to the project. Left out, and without handler, the container converts CSV and JSON
    lines itself, which takes about 4 KB of memory a byte, and starts no Python workers."""
    handler: Literal["servable"] | None = None
    """servable: Servable's own handler in front of the model, also without a transforms.py: arrays
    and protobuf in bodies, gRPC to the model server. Left out, the code's own inference.py; with
    only transforms.py there, Servable's."""
    install: Literal["vendored", "at start"] = "vendored"
    """How code/requirements.txt gets into the container. vendored: as wheels in the archive, locked
    by `servable package ENV`. at start: by pip in every container, which needs the internet and
    slows every scale-out."""
    tensorflow: str | None = None
    """TensorFlow version of the container image, as 2.20. Left out, the newest image that the
    variant's machine can run."""
    image: str | None = Field(default=None, min_length=1)
    """A container image of one's own, in ECR, by address and tag or digest. It takes the stock
    image's variables. Left out, the stock image of the TensorFlow version."""
    execution_role: RoleArn | None = None
    """A role of this account that SageMaker takes on for this model, by ARN. Left out,
    `endpoint.execution_role`, or a role that is made for the model."""
    network_isolation: bool = False
    """The container can call nobody, S3 included; SageMaker still fetches the model."""
    server_memory_gib: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Measured resident memory of one model server with the model loaded. Left out, the size of its
    files and 0.3 GiB."""
    worker_memory_mib: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Measured memory that one Gunicorn worker takes for itself. Left out, 128 MiB."""


BYTES_PER_GIB = 2**30
MIB_PER_GIB = 1024


def served(models: Mapping[str, Model], name: str, root: Path) -> Served:
    """The model of that name with what is packed beside it; of multi_model no size, since a
    container holds those that were asked for. Never raises for a bad folder.

    `root`: the project that the models' paths are relative to.
    """
    model = models[name]
    measured_worker = model.worker_memory_mib
    found = Served(
        model_gib=None,
        measured_server_gib=model.server_memory_gib,
        measured_worker_gib=None if measured_worker is None else measured_worker / MIB_PER_GIB,
    )
    if model.artifact is not None:
        packed = model.artifact.size_bytes
        return replace(
            found,
            model_gib=model.artifact.size_gib,
            packed_gib=None if packed is None else packed / BYTES_PER_GIB,
            has_code=None,
        )
    several = model.multi_model is not None
    return replace(
        found,
        model_gib=None if several else _together_gib(models, name, root),
        compressed=model.compression == "gzip",
        # In multi-model mode Gunicorn always runs: it loads and unloads the models.
        has_code=several or model.code is not None or model.handler is not None,
        multi_model=several,
    )


def _together_gib(models: Mapping[str, Model], name: str, root: Path) -> float | None:
    """Of all models in one archive; None when the size of one is unknown."""
    total = 0.0
    for one in [name, *models[name].also_serves]:
        model = models.get(one)
        size = folder_gib(root / model.saved_model) if model and model.saved_model else None
        if size is None:
            return None
        total += size
    return total


def folder_gib(folder: Path) -> float | None:
    """All files of all versions: the container loads every one."""
    try:
        files = (one for one in folder.rglob("*") if one.is_file())
        total = sum(one.stat().st_size for one in files)
    except (OSError, ValueError):  # ValueError: no name of a folder, since Python 3.13
        return None  # another rule says what is wrong with the folder
    return total / BYTES_PER_GIB if total else None
