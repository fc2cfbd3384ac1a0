"""Serve a variant of an environment on this computer, in the local container or the AWS image.

Its models are packed. An archive in S3 is downloaded once for this computer. The download is
verified, can be resumed, and shows its progress.
"""

import fcntl
import hashlib
import json
import os
import re
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedRandom
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.batch.job import BatchJob
from infra.parameters.finding import suggest_name
from infra.parameters.loading import ValidFile
from infra.parameters.model import Artifact
from infra.parameters.placement import find_placement
from infra.policy.container import MULTI_MODEL_SWITCH
from infra.policy.hosting import Hosting
from model_packaging.archive import pack_tree
from model_packaging.beside import ARCHIVES, UNPACKED, WHEELS
from model_packaging.dependencies.requirements_file import list_source_options
from model_packaging.dependencies.wheels import build_lib_folder
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import WARM_UP
from servable.console.lines import build_byte_progress, show_progress_line
from servable.package.package import pack_models
from servable.project import provided
from servable.project.account import Account, split_uri
from servable.project.provided import LaunchError
from servable_tensors.archive import ArchiveError, unpack

CHUNK_BYTES = 8 * 1024 * 1024
Report = Callable[[int, int], None]
"""Called with the bytes that are there and the size of the object."""


def find_cached_path(artifact: Artifact) -> Path:
    """Return the path of a downloaded archive on this computer, which is named after its hash."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "servable" / "archives" / f"{artifact.sha256}.tar.gz"


def _provide_archive(loaded: ValidFile, model: str, artifact: Artifact, *, download: bool) -> Path:
    """Return the archive; `download` a missing one with a progress bar. Raises `PackagingError`."""
    environment, target = loaded.environment, find_cached_path(artifact)
    if target.exists():
        return target
    if not download:
        archive = f"models.{model} is an archive in S3, {artifact.uri}"
        problem = f"{archive}, that hasn't been downloaded yet"
        fix = f"`servable serve {loaded.name}` downloads it once to this computer"
        raise PackagingError(Path(loaded.file), problem, fix)
    s3 = Account(region=environment.region, number=environment.account).client("s3")
    try:
        with build_byte_progress() as bar:
            task = bar.add_task(f"download {artifact.uri}", total=None)

            def report(there: int, size: int) -> None:
                bar.update(task, completed=there, total=size)

            return fetch(artifact, s3, target, report)
    except (BotoCoreError, ClientError) as wrong:
        problem = f"cannot be downloaded: {wrong}"
        remedy = (
            "check your credentials (s3:GetObject, and kms:Decrypt of its key) and the uri; the next "
            "call resumes the download"
        )
        raise PackagingError(Path(artifact.uri), problem, remedy) from None


def fetch(artifact: Artifact, s3: Any, target: Path, report: Report) -> Path:
    """Download the archive to TARGET.part, and rename the file if its hash is right.

    The download continues where an earlier call ended. A second process that wants the same
    archive waits for the first. Raises boto3's errors. If the hash is wrong, it deletes the part
    and raises `PackagingError`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with part.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if target.exists():  # the other process has just finished
            part.unlink(missing_ok=True)
            return target
        digest = _receive_rest(artifact, s3, file, report)
        if digest != artifact.sha256:
            part.unlink()
            why = "the object was replaced since it was pinned"
            problem = f"its SHA-256 is {digest}, not {artifact.sha256}: {why}"
            remedy = "if this is intended, `servable pin` with the environment's name writes the new hash"
            raise PackagingError(Path(artifact.uri), problem, remedy)
        file.flush()
        os.fsync(file.fileno())
        part.replace(target)
    return target


def _receive_rest(artifact: Artifact, s3: Any, file: BufferedRandom, report: Report) -> str:
    """Append the missing bytes to `file`, and return the SHA-256 of the whole file in hex."""
    bucket, key = split_uri(artifact.uri)
    size = s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
    if (there := file.seek(0, os.SEEK_END)) > size:
        there = file.truncate(0)
    file.seek(0)
    digest = hashlib.sha256()
    hashlib.file_digest(file, lambda: digest)  # what an earlier call received
    report(there, size)
    if there < size:
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={there}-")["Body"]
        for chunk in body.iter_chunks(CHUNK_BYTES):
            there += file.write(chunk)
            digest.update(chunk)
            report(there, size)
    return digest.hexdigest()


# servable_local/container/model_server/process.py writes it.
FAILED_RECORD = re.compile(
    rf"model (?P<model>\S+) version [0-9]+: {WARM_UP}: record (?P<number>[0-9]+): (?P<problem>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class PreparedVariant:
    """One variant to serve; in multi-model mode it has `members`, and no `archive`."""

    variant: str
    archive: Path | None
    members: dict[str, Path]
    variables: dict[str, str]
    image: str
    """The container image's address."""
    tensorflow: str
    """TensorFlow version, as 2.20."""
    file: str = ""
    """The environment file."""
    ready_timeout_seconds: float = 3600.0
    """How long the container may start; by default, SageMaker's longest wait."""
    warm_up: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files of the warm-up requests that were packed here, by model."""

    def explain_failure(self, reason: str) -> str:
        """Explain why a container doesn't start: a warm-up request's key and file, or `reason`."""
        failed = FAILED_RECORD.search(reason)
        files = self.warm_up.get(failed["model"], ()) if failed else ()
        if failed is None or int(failed["number"]) > len(files):
            return reason
        problem = " ".join(failed["problem"].split())  # TensorFlow's goes over several lines
        return (
            f"{problem}; {self.file}: models.{failed['model']}.warm_up: the model fails on "
            f"{files[int(failed['number']) - 1]}, so that the container does not start; "
            "write a request there that the model answers, or remove it from warm_up"
        )


def prepare_variant(
    loaded: ValidFile,
    *,
    variant: str | None = None,
    archive: Path | None = None,
    download: bool = True,
) -> PreparedVariant:
    """Pack the models of a variant, unless `archive` is given.

    Raises `PackagingError`. `variant` None: the environment's first. An archive in S3 is
    downloaded once for this computer; without `download` it is used only if it was downloaded
    before.
    """
    environment = loaded.environment
    known = environment.serving_variants
    name = variant or next(iter(known))
    if name not in known:
        problem = f"there is no variant {name!r}; allowed: {', '.join(known)}"
        raise PackagingError(Path(loaded.file), problem, suggest_name(name, known))
    placed = find_placement(environment, name)
    assert placed is not None  # preflight: its instance type and model are known
    decided = placed.build_hosting(environment.region)
    served = _prepare_model(loaded, name, known[name].model, decided, archive, download=download)
    stated = placed.variant.startup_timeout_seconds
    return replace(served, ready_timeout_seconds=stated) if stated else served


def prepare_batch(loaded: ValidFile, job: BatchJob, *, download: bool = True) -> PreparedVariant:
    """Pack the model of a batch for its container variables, like `prepare_variant`."""
    decided = job.build_hosting(loaded.environment.region)
    return _prepare_model(loaded, job.name, job.batch.model, decided, None, download=download)


def _prepare_model(
    loaded: ValidFile,
    name: str,
    served: str,
    decided: Hosting,
    archive: Path | None,
    *,
    download: bool,
) -> PreparedVariant:
    """Prepare a model. `name`: the name of the variant or batch. `served`: the name of its model."""
    environment = loaded.environment
    model = environment.models[served]
    if model.artifact is not None and archive is None:
        archive = _provide_archive(loaded, served, model.artifact, download=download)
    packed = {} if archive else _pack_models(loaded, {served, *(model.multi_model or [])})
    switch = {MULTI_MODEL_SWITCH: "true"} if model.multi_model else {}
    return PreparedVariant(
        variant=name,
        archive=archive or (None if model.multi_model else packed[served]),
        members=packed if model.multi_model else {},
        variables=dict(decided.variables) | switch,
        image=decided.image.uri,
        tensorflow=decided.tensorflow,
        file=loaded.file,
        warm_up={name: environment.models[name].warm_up for name in packed},
    )


def _pack_models(loaded: ValidFile, wanted: set[str]) -> dict[str, Path]:
    paths, root = {}, loaded.root
    for packed in pack_models(loaded):
        if packed.model not in wanted:
            continue
        model = loaded.environment.models[packed.model]
        if model.code is not None and model.install == "vendored":
            code = model.code.path
            lib = build_lib_folder(code, wheels=root / WHEELS, unpacked=root / UNPACKED)
            # Compiled packages for this Python, from the index that requirements.txt specifies.
            if lib is not None and (index := list_source_options(code)):
                # The container reports packages that couldn't be fetched when it starts.
                list(provided.fetch_packages(lib, index=index))
        path = packed.path
        if path is None:
            # A deploy uploads the files unpacked; here they are packed like the others.
            path = root / ARCHIVES / f"{packed.key}.tar.gz"
            if not path.exists():
                pack_tree(packed.tree, path)
        paths[packed.model] = path
    return paths


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults injected from the start; see servable_local/container/faults.py."""

    slow_ms: float = 0.0
    fail_status: int = 0
    full_queue: bool = False
    freeze: bool = False
    kill_every_seconds: float | None = None

    def inject(self, process: "provided.EndpointProcess") -> None:
        process.faults.slow(self.slow_ms)
        process.faults.fail(self.fail_status)
        process.faults.fill_queue(self.full_queue)
        if self.freeze:
            process.faults.freeze("model server")


@contextmanager
def serve_locally(
    served: PreparedVariant,
    *,
    port: int,
    log: Path | None = None,
    memory_limit_mib: int | None = None,
    faults: Faults = Faults(),
    record: "provided.Recording | None" = None,
) -> Iterator["provided.EndpointProcess"]:
    """Run the local container. In multi-model mode, every model is loaded. Raises `LaunchError`."""
    try:
        with show_progress_line() as show:
            launched = provided.launch(
                served.archive,
                served.variables,
                ready_timeout_seconds=served.ready_timeout_seconds,
                log=log or provided.STDERR,
                port=port,
                memory_limit_mib=memory_limit_mib,
                tensorflow=served.tensorflow,
                record=record,
                unpacking=lambda read, size: show(
                    lambda: f"unpacking: {read / 1e6:.0f} of {size / 1e6:.0f} MB"
                ),
            )
        with tempfile.TemporaryDirectory(prefix="servable-models-") as models, launched as process:
            for name, archive in served.members.items():
                _load_model(process, name, archive, Path(models) / name / "model")
            faults.inject(process)
            yield process
    except LaunchError as error:
        raise LaunchError(served.explain_failure(str(error))) from None


def serve_image(served: PreparedVariant, *, port: int) -> "provided.ImageContainer":
    """Run the AWS image in Docker. Raises `LaunchError`, whose message says what is missing."""
    if served.archive is None:
        raise LaunchError("--docker doesn't serve several models behind one endpoint; remove it")
    print(f"starting {served.image}", file=sys.stderr, flush=True)
    return provided.launch_image(
        served.image,
        served.archive,
        served.variables,
        port=port,
        ready_timeout_seconds=served.ready_timeout_seconds,
    )


def _load_model(process: "provided.EndpointProcess", name: str, archive: Path, into: Path) -> None:
    """Load a model as SageMaker does on its first request: fetch, unpack, POST /models."""
    into.mkdir(parents=True)
    try:
        unpack(archive, into)
    except ArchiveError as error:
        raise LaunchError(str(error)) from None
    body = json.dumps({"model_name": name, "url": str(into)}).encode()
    request = urllib.request.Request(f"{process.url}/models", body, method="POST")
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        problem = f"model {name} isn't loaded; see the log for the reason"
        raise LaunchError(f"{problem}: {error.read().decode()}") from None
