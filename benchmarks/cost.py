"""CPU time and memory of the parts of an endpoint."""

import time
from collections.abc import Iterable

import numpy as np
import psutil
from numpy.typing import NDArray

from servable_local.container.launch import EndpointProcess

Cpu = NDArray[np.float64]
"""CPU time in ms: the nginx stand-in with Gunicorn and its workers; the model servers."""


def cpu(process: EndpointProcess) -> Cpu:
    """CPU time so far, of all threads."""
    parts = process.parts
    gateway = (parts.nginx, parts.gunicorn, *parts.workers)
    return np.array([milliseconds(gateway), milliseconds(parts.model_servers)])


def milliseconds(pids: Iterable[int | None]) -> float:
    """CPU time so far, user and system, of all threads of these processes, ended ones included.

    Source of a process's clock: clock_getcpuclockid(3); CPUCLOCK_SCHED in the kernel's
    include/linux/posix-timers_types.h.
    """
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids if pid is not None) * 1000


def memory_mb(process: EndpointProcess) -> float:
    """Memory of all processes of an endpoint in MB; shared pages are divided among them."""
    parts = process.parts
    return pss_mb((parts.nginx, parts.gunicorn, *parts.workers, *parts.model_servers))


def pss_mb(pids: Iterable[int | None]) -> float:
    """Proportional set sizes of processes in MB."""
    memory = [psutil.Process(pid).memory_full_info() for pid in pids if pid is not None]
    return float(sum(of_process.pss for of_process in memory)) / 1e6
