"""What the containers of an endpoint take of this machine, as SageMaker publishes it.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html,
"SageMaker Jobs and Endpoint Metrics". The instance is this machine.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from servable_local.aws.sagemaker.container import Container

NAMESPACE = "/aws/sagemaker/Endpoints"
# Below that a share of the time says nothing: a clock moved by hand, or a very quick one.
_SHORTEST_SECONDS = 0.5


@dataclass
class Utilisation:
    """Of one container, from one look to the next."""

    _looked: float = field(default_factory=time.monotonic)
    _cpu_seconds: dict[int, float] = field(default_factory=dict)

    def look(self, container: Container) -> dict[str, float]:
        """{metric: percent} since the last look; empty where there is nothing to measure.

        CPUUtilization is 100 for each busy core, as SageMaker has it.
        """
        elapsed_seconds = time.monotonic() - self._looked
        if container.pid is None or elapsed_seconds < _SHORTEST_SECONDS:
            return {}
        before, self._cpu_seconds = self._cpu_seconds, {}
        memory_bytes = 0
        for process in _processes(container.pid):
            try:
                times = process.cpu_times()
                self._cpu_seconds[process.pid] = times.user + times.system
                # The share of what is shared: a forked worker has not copied its parent.
                memory_bytes += process.memory_full_info().pss
            except psutil.Error:
                continue  # ended meanwhile
        first, self._looked = not before, time.monotonic()
        found = {"MemoryUtilization": 100 * memory_bytes / psutil.virtual_memory().total}
        if container.folder is not None:
            disk = psutil.disk_usage(str(container.folder)).total
            found["DiskUtilization"] = 100 * _size_bytes(container.folder) / disk
        if not first:
            busy = sum(now - before.get(pid, 0.0) for pid, now in self._cpu_seconds.items())
            found["CPUUtilization"] = 100 * busy / elapsed_seconds
        return found


def _processes(pid: int) -> Iterable[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue  # a temporary file, gone again
    return total
