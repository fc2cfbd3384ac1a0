"""CPU time and memory of the parts of an endpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from local.endpoint.launch import EndpointProcess


@dataclass(frozen=True)
class Cpu:
    """Milliseconds. The gateway is all that stands before the model server, workers included."""

    gateway_ms: float
    model_server_ms: float

    @property
    def whole_ms(self) -> float:
        return self.gateway_ms + self.model_server_ms


def cpu(process: EndpointProcess) -> Cpu:
    """So far, of all threads."""
    parts = process.parts
    gateway = (parts.front, parts.gateway, *parts.workers)
    return Cpu(_milliseconds(gateway), _milliseconds(parts.model_servers))


def pss_mib(pids: Iterable[int]) -> float:
    """Memory, what is shared counted by shares."""
    return sum(_pss_kib(pid) for pid in pids) / 1024


def _milliseconds(pids: Iterable[int | None]) -> float:
    # In steps of 10 ms, but with the time of threads that have ended.
    times = [psutil.Process(pid).cpu_times() for pid in pids if pid is not None]
    return float(sum(one.user + one.system for one in times)) * 1000


def _pss_kib(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1])
