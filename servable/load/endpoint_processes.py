"""The processes of an endpoint on this machine: what they take, and that the generator comes first."""

import os
import time

import psutil

from servable.load.measurement import Usage

_BYTES_PER_MIB = 1024**2
# The kernel walks all pages of a process to say what it holds: more often it would cost what it watches.
MEMORY_SECONDS = 2.0
LOOK_SECONDS = 0.5
# What an endpoint yields to the generator by, a third of a share: enough for the generator to come
# first, and an endpoint beside other work of this computer still gets its part.
NICENESS = 5


class UsageWatch:
    """`look()` now and then; `found()` is what was taken between the first and the last look."""

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
        """None: there were no two looks."""
        if len(self._looks) < 2:
            return None
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        # A process that ended meanwhile has taken its time with it.
        cores = max(0.0, after - before) / (ended - began)
        return Usage(cpu_cores=cores, memory_mib=self._memory_mib)


def yielding(pid: int, *, entirely: bool = False) -> None:
    """The process and all that it started. On Linux a priority is a thread's: each thread.

    `entirely`: whatever else wants a core gets it at once (SCHED_IDLE). Beside other work such an
    endpoint stands still: for a quiet machine.
    """
    for one in _processes(pid):
        try:
            if not psutil.LINUX:
                one.nice(NICENESS)
                continue
            for thread in one.threads():
                if entirely:
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread.id, NICENESS)
        except (psutil.Error, OSError):
            pass  # it, or one of its threads, has ended


def _processes(pid: int) -> list[psutil.Process]:
    """It and all that it started; none where it has ended."""
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
    """Shared pages by equal parts, so that processes can be added up. Source: proc(5)."""
    try:
        told = process.memory_full_info()
        return float(getattr(told, "pss", told.uss)) / _BYTES_PER_MIB  # macOS: its own pages
    except psutil.Error:
        return 0.0
