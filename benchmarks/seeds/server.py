"""What is measured, and what its processes cost: the double, or the real image in Docker."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.serving.cost import Cpu, cpu, pss_mb
from servable_local.container.launch import EndpointProcess, launch
from servable_local.container.real_image import ImageContainer, launch_image

READY_SECONDS = 120.0
# As Linux cuts the name of tensorflow_model_server.
MODEL_SERVER = "tensorflow_mode"


class Server(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def archive(self) -> Path:
        """Where the container sees what its archive holds."""

    def cpu(self) -> Cpu:
        """So far, of all processes that answer."""

    def memory_mb(self) -> float:
        """Of all of them, what is shared counted by shares."""


Start = Callable[[Path, Mapping[str, str]], AbstractContextManager[Server]]
"""An archive and the container's variables."""


class _Double:
    def __init__(self, process: EndpointProcess) -> None:
        self.url = process.url
        self.archive = process.folder / "model"
        self._process = process

    def cpu(self) -> Cpu:
        return cpu(self._process)

    def memory_mb(self) -> float:
        parts = self._process.parts
        all_of = (parts.nginx, parts.gunicorn, *parts.workers, *parts.model_servers)
        return pss_mb(pid for pid in all_of if pid is not None)


class _Image:
    """Asked from inside, where its processes may be read and Docker's machine does not matter."""

    archive = Path("/opt/ml/model")

    def __init__(self, container: ImageContainer) -> None:
        self.url = container.url
        self._name = container.name

    def cpu(self) -> Cpu:
        ticks = {"model server": 0, "gateway": 0}
        for line in self._read("stat"):
            # After the name, which may hold anything: user and system time are fields 12 and 13.
            name, fields = line.split("(", 1)[1].rsplit(")", 1)
            part = "model server" if name.startswith(MODEL_SERVER) else "gateway"
            ticks[part] += sum(map(int, fields.split()[11:13]))
        tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
        return Cpu(ticks["gateway"] * tick_ms, ticks["model server"] * tick_ms)

    def memory_mb(self) -> float:
        kib = [int(line.split()[1]) for line in self._read("smaps_rollup") if line[:4] == "Pss:"]
        return sum(kib) * 1024 / 1e6

    def _read(self, file: str) -> list[str]:
        # A process may end between the shell's look and cat's: what cat says of that is nothing.
        command = ["docker", "exec", self._name, "sh", "-c", f"cat /proc/[0-9]*/{file} 2>&-"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        if not ran.stdout:
            raise RuntimeError(f"docker exec {self._name}: {ran.stderr.strip() or 'no answer'}")
        return ran.stdout.splitlines()


@contextmanager
def double(archive: Path, variables: Mapping[str, str]) -> Iterator[Server]:
    with launch(archive, variables, ready_timeout_seconds=READY_SECONDS) as process:
        yield _Double(process)


def of_image(image: str) -> Start:
    @contextmanager
    def start(archive: Path, variables: Mapping[str, str]) -> Iterator[Server]:
        with launch_image(image, archive, variables) as container:
            yield _Image(container)

    return start
