"""The processes of an endpoint on this computer: their CPU and memory, and their priority."""

import os
import time
from contextlib import suppress

import psutil

from servable.load.measurement import Usage

_BYTES_PER_MIB = 1024**2
# The kernel walks all pages of a process for it: more often it would cost too much.
MEMORY_SECONDS = 2.0
LOOK_SECONDS = 0.5
# Lowers the endpoint's CPU share to a third: the generator comes first, and beside other work on this
# computer the endpoint still gets a share.
NICENESS = 5


class UsageWatch:
    """CPU and memory of a process tree between calls of `look()`; `found()` returns them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: list[tuple[float, float]] = []
        self._memory_mib = 0.0
        self._memory_at = float("-inf")

    def look(self) -> None:
        if self._looks and time.monotonic() - self._looks[-1][0] < LOOK_SECONDS:
            return
        processes = _processes(self._pid)
        self._looks.append((time.monotonic(), sum(map(_cpu_seconds, processes))))
        now = time.monotonic()
        if now - self._memory_at >= MEMORY_SECONDS:
            self._memory_at = now
            self._memory_mib = max(self._memory_mib, sum(map(_pss_mib, processes)))

    def found(self) -> Usage | None:
        """Return the usage; None if there were fewer than two looks."""
        if len(self._looks) < 2:
            return None
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        # A process that ended meanwhile has taken its time with it.
        cores = max(0.0, after - before) / (ended - began)
        return Usage(cpu_cores=cores, memory_mib=self._memory_mib)


def yielding(pid: int, *, entirely: bool = False) -> None:
    """Lower the priority of a process and its children; on Linux, of each of their threads.

    `entirely`: run only when nothing else wants a core (SCHED_IDLE). Beside other work such an
    endpoint stops answering, so this is for a quiet computer.
    """
    for process in _processes(pid):
        with suppress(psutil.Error, OSError):  # it, or one of its threads, has ended
            if not psutil.LINUX:
                process.nice(NICENESS)
                continue
            for thread in process.threads():
                if entirely:
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread.id, NICENESS)


def _processes(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; none if it has ended."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.Error:
        return []


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        return float(sum(process.cpu_times()[:2]))
    except psutil.Error:
        return 0.0


def _pss_mib(process: psutil.Process) -> float:
    """Proportional set size in MiB: shared pages count in equal parts. Source: proc(5)."""
    try:
        memory = process.memory_full_info()
        return float(getattr(memory, "pss", memory.uss)) / _BYTES_PER_MIB  # macOS: its own pages
    except psutil.Error:
        return 0.0
