"""Run a load test: choose the loads, measure the steps, and watch a local target.

The load rises until more load brings no more throughput; then loads around the knee are measured.
This is AWS's method: users are added until the throughput stays flat.

Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Pace
from servable.load.measurement import LoadCurve, LoadStep, Loop, MeasuredTarget, Usage
from servable.load.objective import Objective, is_overloaded

# The curve is flat if a multiple of the load brings less than this much more throughput.
_FLAT_SHARE = 1.05
# A target that mostly fails isn't measured further.
_FAILING_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The order of loads in one load test."""

    loop: Loop
    first: float = 1.0
    most: float = 4096.0
    growth: float = 2.0
    """Doubling reaches any load in a few steps."""
    finest: float = 1.1
    """Maximum ratio of neighboring loads around the knee; users differ by at least 1."""
    objective: Objective | None = None
    fixed: tuple[float, ...] = ()
    """Only these loads, in this order."""
    further: int = 0
    """Maximum loads after `fixed`, each higher, while the objective is met and throughput grows."""

    def choose_next_load(self, steps: Sequence[LoadStep]) -> float | None:
        """Return the next load; None if the test is done (`describe_end` returns the reason)."""
        if len(steps) < len(self.fixed):
            return self.fixed[len(steps)]
        if self.fixed:
            return self._choose_further_load(steps)
        if not steps:
            return self.first
        by_load = sorted(steps, key=lambda step: step.load)
        if not self._has_reached_top(by_load) and by_load[-1].load < self.most:
            return self._raise_load(by_load[-1])
        return self._choose_load_between(by_load)

    def _choose_further_load(self, steps: Sequence[LoadStep]) -> float | None:
        last, before = steps[-1], steps[-2:-1]
        if len(steps) >= len(self.fixed) + self.further or last.rejection is not None:
            return None
        if self.objective is None or not self.objective.is_met_by(last):
            return None
        if before and last.throughput_rps.value < _FLAT_SHARE * before[0].throughput_rps.value:
            return None
        return self._raise_load(last)

    def describe_end(self, steps: Sequence[LoadStep]) -> str:
        """Return "failing", "saturated", or "done"."""
        by_load = sorted(steps, key=lambda step: step.load)
        if by_load and by_load[-1].failed_share > _FAILING_SHARE:
            return "failing"
        return "saturated" if by_load and self._is_flat(by_load) else "done"

    def _has_reached_top(self, by_load: Sequence[LoadStep]) -> bool:
        last = by_load[-1]
        if last.rejection is not None or last.failed_share > _FAILING_SHARE:
            return True
        if self.objective and self.objective.is_met_by(last):
            # The load that breaks the objective is still to come. If the curve is flat twice, it may
            # never come.
            return self._is_flat(by_load) and len(by_load) > 1 and self._is_flat(by_load[:-1])
        return self._is_flat(by_load)

    def _is_flat(self, by_load: Sequence[LoadStep]) -> bool:
        last = by_load[-1]
        if self.loop == "open":
            return is_overloaded(last)
        below = [step for step in by_load if step.load <= last.load / self.growth]
        return bool(below) and (
            last.throughput_rps.value < _FLAT_SHARE * below[-1].throughput_rps.value
        )

    def _choose_load_between(self, by_load: Sequence[LoadStep]) -> float | None:
        """Return the geometric mean of the last sustained load and the next load.

        Returns None if there is nothing left to measure between them.
        """
        if self.objective:
            sustained = [self.objective.is_met_by(step) for step in by_load]
        elif self.loop == "open":
            sustained = [not is_overloaded(step) for step in by_load]
        else:
            most = max(step.throughput_rps.value for step in by_load)
            sustained = [step.throughput_rps.value < 0.95 * most for step in by_load]
        broken = sustained.index(False) if False in sustained else 0
        if not broken:
            return None
        low, high = by_load[broken - 1].load, by_load[broken].load
        middle = self._round_load(math.sqrt(low * high))
        return middle if high / low > self.finest and low < middle < high else None

    def _raise_load(self, last: LoadStep) -> float:
        return self._round_load(min(self.most, last.load * self.growth))

    def _round_load(self, load: float) -> float:
        return float(round(load)) if self.loop == "closed" else load


# Lowers the endpoint's CPU share to a third: the generator has priority, and the endpoint still gets a
# share if other programs run.
_NICENESS = 5


def lower_priority(pid: int, *, entirely: bool = False) -> None:
    """Lower the priority of a process and its children; on Linux, of each of their threads.

    `entirely`: run only when nothing else needs a core (SCHED_IDLE). On a busy computer, such an
    endpoint stops responding, so use this only on a quiet one.
    """
    for process in _list_processes(pid):
        with suppress(psutil.Error, OSError):  # it, or one of its threads, has ended
            if not psutil.LINUX:
                process.nice(_NICENESS)
                continue
            for thread in process.threads():
                if entirely:
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread.id, _NICENESS)


def _list_processes(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; return no processes if it has ended."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.Error:
        return []


# The kernel walks all pages of a process for each sample.
_SAMPLE_SECONDS = 1.0


class UsageWatch:
    def __init__(self, pid: int) -> None:
        """Watch the CPU and memory of a process and its children from the first `sample()` on."""
        self._pid = pid
        self._samples: list[tuple[float, float, float]] = []

    def sample(self) -> None:
        now, cpu_seconds, memory_mib = time.monotonic(), 0.0, 0.0
        if self._samples and now - self._samples[-1][0] < _SAMPLE_SECONDS:
            return
        for process in _list_processes(self._pid):
            with suppress(psutil.Error):  # it has ended
                cpu_seconds += sum(process.cpu_times()[:2])
                # A shared page counts in equal parts for its processes. macOS has no such number, but
                # that of the process's own pages. Source: proc(5).
                memory = process.memory_full_info()
                memory_mib += getattr(memory, "pss", memory.uss) / 1024**2
        self._samples.append((now, cpu_seconds, memory_mib))

    def compute_usage(self) -> Usage | None:
        """Return the usage; None if there were fewer than two samples."""
        if len(self._samples) < 2:
            return None
        times, cpu_seconds, memory_mib = zip(*self._samples, strict=True)
        # The CPU time of a process that ended meanwhile is missing.
        cores = max(0.0, cpu_seconds[-1] - cpu_seconds[0]) / (times[-1] - times[0])
        return Usage(cpu_cores=cores, memory_mib=max(memory_mib))


def measure_curve(
    generator: LoadGenerator,
    schedule: Schedule,
    pace: Pace,
    asked: MeasuredTarget,
    *,
    target_pid: int | None = None,
    attempts: int = 2,
    kept: Callable[[LoadCurve], None] = lambda curve: None,
    progress: Callable[[LoadCurve, float, dict[str, Any]], None] = lambda curve, load, found: None,
) -> LoadCurve:
    """Measure every step and return the load curve. Raises LoadError.

    `kept` is called after each step, `progress` often. Ctrl-C ends the measurement: the curve's
    `ended` is then "interrupted", and it contains the complete steps.

    `target_pid`: process of a target on this computer, whose CPU and memory are watched.
    `attempts`: maximum measurements of a step whose requests were sent late; the last one is
    kept.
    """
    curve = LoadCurve(asked=asked, loop=schedule.loop, steps=(), ended="interrupted")
    watch: UsageWatch | None = None

    def report(found: dict[str, Any]) -> None:
        assert load is not None  # a step runs
        if watch and found["seconds"] > 0:
            watch.sample()
        progress(curve, load, found)

    try:
        while (load := schedule.choose_next_load(curve.steps)) is not None:
            for left in reversed(range(attempts)):
                watch = UsageWatch(target_pid) if target_pid else None
                step = generator.run_step(load, pace, report)
                if step.rejection is None or not left:
                    break
            used = watch.compute_usage() if watch else None
            curve = curve.add_step(dataclasses.replace(step, target=used))
            kept(curve)
    except KeyboardInterrupt:
        return curve
    curve = dataclasses.replace(curve, ended=schedule.describe_end(curve.steps))
    kept(curve)
    return curve
