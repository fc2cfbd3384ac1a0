"""Starts the local container, or the AWS image, for what an environment deploys."""

import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servable.project.provided import (
    STDERR,
    EndpointProcess,
    ImageContainer,
    LaunchError,
    Recording,
    launch,
    launch_image,
)
from servable.serve.serve import PreparedVariant
from servable_tensors.archive import ArchiveError, unpack

# SageMaker's longest wait for a container to answer, where the file states none.
READY_TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults injected from the start; see servable_local/container/faults.py."""

    slow_ms: float = 0.0
    fail_status: int = 0
    full_queue: bool = False
    freeze: bool = False
    kill_every_seconds: float | None = None

    def inject(self, process: EndpointProcess) -> None:
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
    record: Recording | None = None,
) -> Iterator[EndpointProcess]:
    """Run the local container. In multi-model mode every model is loaded. Raises `LaunchError`."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="servable-models-") as models,
            launch(
                served.archive,
                served.variables,
                ready_timeout_seconds=served.startup_timeout_seconds or READY_TIMEOUT_SECONDS,
                log=log or STDERR,
                port=port,
                memory_limit_mib=memory_limit_mib,
                tensorflow=served.tensorflow,
                record=record,
            ) as process,
        ):
            for name, archive in served.members.items():
                _load(process, name, archive, Path(models) / name / "model")
            faults.inject(process)
            yield process
    except LaunchError as error:
        raise LaunchError(served.explained(str(error))) from None


def serve_image(served: PreparedVariant, *, port: int) -> ImageContainer:
    """Run the AWS image in Docker. Raises `LaunchError`, which says what is missing."""
    if served.archive is None:
        raise LaunchError(
            "--docker does not serve several models behind one endpoint; leave it out"
        )
    print(f"starting {served.image}", file=sys.stderr, flush=True)
    seconds = served.startup_timeout_seconds or READY_TIMEOUT_SECONDS
    return launch_image(
        served.image, served.archive, served.variables, port=port, ready_timeout_seconds=seconds
    )


def _load(process: EndpointProcess, name: str, archive: Path, folder: Path) -> None:
    """Load a model as SageMaker does on its first request: fetch, unpack, POST /models."""
    folder.mkdir(parents=True)
    try:
        unpack(archive, folder)
    except ArchiveError as error:
        raise LaunchError(str(error)) from None
    body = json.dumps({"model_name": name, "url": str(folder)}).encode()
    request = urllib.request.Request(f"{process.url}/models", body, method="POST")
    try:
        with urllib.request.urlopen(request):
            pass
    except urllib.error.HTTPError as error:
        answer = error.read().decode()
        raise LaunchError(f"model {name} is not loaded; the log has the reason: {answer}") from None
