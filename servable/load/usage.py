"""What processes of this machine take: CPU time and memory, of one and all that it started."""

import time
from pathlib import Path

import psutil

from servable.load.measurement import Usage

_KIB_PER_MIB = 1024
# The kernel walks all pages of a process to say what it holds: more often it would cost what it watches.
MEMORY_SECONDS = 2.0
LOOK_SECONDS = 0.5


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


def _processes(pid: int) -> list[psutil.Process]:
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
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    lines = [line for line in text.splitlines() if line.startswith("Pss:")]
    return int(lines[0].split()[1]) / _KIB_PER_MIB if lines else 0.0
