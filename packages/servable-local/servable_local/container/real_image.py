"""The real container image, run by Docker and served like the local container."""

import contextlib
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from servable_local.container.launch import LaunchError
from servable_local.container.ports import HOST, PortError, reserve_port
from servable_local.container.settings import PORT_RANGE
from servable_tensors.archive import ArchiveError, unpack

# SageMaker names a range; a container of its own can have any. 2 ports for each model server.
_PORT_RANGE = {PORT_RANGE: "20000-29999"}


@dataclass(frozen=True)
class ImageContainer(AbstractContextManager["ImageContainer"]):
    """A running container. `url` serves GET /ping and POST /invocations."""

    name: str
    """Docker's, as in `docker exec NAME …`."""
    url: str
    folder: Path
    """Holds what is mounted into it."""

    def close(self) -> None:
        """End the container and remove its unpacked files. Idempotent."""
        subprocess.run(["docker", "rm", "--force", self.name], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return _run_docker("ps", "--quiet", "--filter", f"name={self.name}").stdout.strip() != ""

    def __exit__(self, *failure: object) -> None:
        self.close()


def launch_image(
    image: str,
    archive: Path,
    variables: Mapping[str, str],
    *,
    port: int = 0,
    ready_timeout_seconds: float = 300.0,
) -> ImageContainer:
    """Run `image` with the archive where SageMaker puts it, or raise `LaunchError`."""
    check_image(image)
    try:
        reservation = reserve_port(port)
    except PortError as error:
        raise LaunchError(str(error)) from None
    port = int(reservation.getsockname()[1])
    reservation.close()  # Docker takes it itself
    folder = Path(tempfile.mkdtemp(prefix="servable-image-"))
    container = ImageContainer(folder.name, f"http://{HOST}:{port}", folder)
    try:
        # The container's users read it; others here do not get into the folder around.
        model = folder / "model"
        model.mkdir()
        unpack(archive, model)
        model.chmod(0o755)
        # 8080 is the image's default.
        words = ["run", "--detach", "--name", folder.name, "--publish", f"{HOST}:{port}:8080"]
        words += ["--volume", f"{model}:/opt/ml/model:ro"]
        for name, text in sorted(({**_PORT_RANGE, **variables}).items()):
            words += ["--env", f"{name}={text}"]
        started = _run_docker(*words, image, "serve")
        if started.returncode != 0:
            raise LaunchError(f"docker run failed: {started.stderr.strip()}")
        _wait_until_ready(container, ready_timeout_seconds)
    except BaseException as error:  # Ctrl-C while waiting leaves nothing either
        container.close()
        if isinstance(error, ArchiveError):
            raise LaunchError(str(error)) from None
        raise
    return container


def check_image(image: str) -> None:
    """Raise `LaunchError` if Docker, its daemon, or the image is missing."""
    if shutil.which("docker") is None:
        raise LaunchError("`docker` isn't installed here; install it, or omit --docker")
    server = _run_docker("version", "--format", "{{.Server.Version}}")
    if server.returncode != 0:
        reason = (server.stderr.strip().splitlines() or ["no answer"])[-1]
        raise LaunchError(f"Docker isn't running: {reason}; start it, or omit --docker")
    if _run_docker("image", "inspect", image).returncode != 0:
        registry = image.split("/")[0]
        region = registry.split(".")[3] if registry.count(".") > 3 else "REGION"
        raise LaunchError(
            f"the image {image} isn't on this computer; pull it (10 GB) with AWS credentials:\n"
            f"  aws ecr get-login-password --region {region} | "
            f"docker login --username AWS --password-stdin {registry}\n"
            f"  docker pull {image}"
        )


def _wait_until_ready(container: ImageContainer, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),  # not yet
            urllib.request.urlopen(f"{container.url}/ping", timeout=5),
        ):
            return
        if not container.is_running:
            break
        time.sleep(0.5)
    logs = _run_docker("logs", "--tail", "10", container.name)
    raise LaunchError(
        f"the container didn't respond to /ping within {timeout_seconds:g} s:\n"
        f"{logs.stdout}{logs.stderr}"
    )


def _run_docker(*words: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            ["docker", *words], capture_output=True, text=True, timeout=20.0, check=False
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"`docker {words[0]}` doesn't respond; check that Docker is running"
        ) from None
