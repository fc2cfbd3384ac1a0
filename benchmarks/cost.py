"""CPU time and memory of the parts of an endpoint."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from servable_local.container.launch import EndpointProcess


@dataclass(frozen=True)
class Cpu:
    """CPU time in milliseconds. `gateway` is the nginx stand-in, Gunicorn and its workers."""

    gateway_ms: float
    model_server_ms: float

    @property
    def whole_ms(self) -> float:
        return self.gateway_ms + self.model_server_ms

    def __add__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.gateway_ms + other.gateway_ms, self.model_server_ms + other.model_server_ms)

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.gateway_ms - other.gateway_ms, self.model_server_ms - other.model_server_ms)


def cpu(process: EndpointProcess) -> Cpu:
    """So far, of all threads."""
    parts = process.parts
    gateway = (parts.nginx, parts.gunicorn, *parts.workers)
    return Cpu(milliseconds(gateway), milliseconds(parts.model_servers))


def milliseconds(pids: Iterable[int | None]) -> float:
    """CPU time so far, user and system, of all threads of these processes."""
    return sum(time.clock_gettime(_clock_of(pid)) for pid in pids if pid is not None) * 1000


def memory_mb(process: EndpointProcess) -> float:
    """Memory of all processes of an endpoint in MB; shared pages are divided among them."""
    parts = process.parts
    return pss_mb((parts.nginx, parts.gunicorn, *parts.workers, *parts.model_servers))


def pss_mb(pids: Iterable[int | None]) -> float:
    """Memory, what is shared counted by shares."""
    return sum(_pss_kib(pid) for pid in pids if pid is not None) * 1024 / 1e6


def _clock_of(pid: int) -> int:
    """Id of the CPU clock of all threads of a process, ended ones included, in Linux's numbering.

    Source: clock_getcpuclockid(3); CPUCLOCK_SCHED in the kernel's include/linux/posix-timers_types.h.
    """
    return ~pid << 3 | 2


def _pss_kib(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1])
