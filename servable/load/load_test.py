"""Run a load test: choose the loads, measure the steps, and watch a local target.

The CPU and memory of a target on this computer are watched. The load rises until more load brings
no more throughput; then loads around the knee are measured. This is AWS's method: users are added
until the throughput stays flat.

Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Pace
from servable.load.measurement import LoadCurve, LoadStep, Loop, MeasuredTarget, Usage
from servable.load.objective import Objective, is_overloaded

# Flat: twice the load, less than this much more throughput.
_FLAT_SHARE = 1.05
# Nothing is learnt from a target that mostly fails, or is this many times too slow.
_FAILING_SHARE = 0.5
_TOO_SLOW = 20.0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The order of loads in one load test."""

    loop: Loop
    first: float = 1.0
    most: float = 4096.0
    growth: float = 2.0
    """Doubling reaches any load in a few steps."""
    finest: float = 1.1
    """Loads around the knee are at most so far apart; users at least 1."""
    objective: Objective | None = None
    fixed: tuple[float, ...] = ()
    """These loads and no others, in this order."""
    further: int = 0
    """Most loads after `fixed`, each higher, while the objective is met and throughput grows."""

    def choose_next_load(self, steps: Sequence[LoadStep]) -> float | None:
        """Return the next load, or None if the test is done.

        If it is done, `describe_end(steps)` returns the reason.
        """
        if self.fixed:
            number = len(steps)
            return (
                self.fixed[number] if number < len(self.fixed) else self._choose_further_load(steps)
            )
        if not steps:
            return self.first
        by_load = sorted(steps, key=lambda step: step.load)
        if not self._is_top(by_load) and by_load[-1].load < self.most:
            return self._round_load(min(self.most, by_load[-1].load * self.growth))
        return self._choose_load_between(by_load)

    def _choose_further_load(self, steps: Sequence[LoadStep]) -> float | None:
        last, before = steps[-1], steps[-2:-1]
        if len(steps) >= len(self.fixed) + self.further or last.rejection is not None:
            return None
        if self.objective is None or not self.objective.is_met_by(last):
            return None
        if before and last.throughput_rps.value < _FLAT_SHARE * before[0].throughput_rps.value:
            return None
        return self._round_load(min(self.most, last.load * self.growth))

    def describe_end(self, steps: Sequence[LoadStep]) -> str:
        by_load = sorted(steps, key=lambda step: step.load)
        if by_load and by_load[-1].failed_share > _FAILING_SHARE:
            return "failing"
        return "saturated" if by_load and self._is_flat(by_load) else "done"

    def _is_top(self, by_load: Sequence[LoadStep]) -> bool:
        last = by_load[-1]
        if last.rejection is not None or last.failed_share > _FAILING_SHARE:
            return True
        if self.objective:
            latency = last.latencies.compute_percentile_ms(self.objective.percent)
            if latency > _TOO_SLOW * self.objective.most_ms:
                return True
            if self.objective.is_met_by(last):
                # Flat or not: the load that breaks the objective is still to come. What is flat
                # and meets it may stay so for ever.
                return self._is_flat(by_load) and len(by_load) > 1 and self._is_flat(by_load[:-1])
        return self._is_flat(by_load)

    def _is_flat(self, by_load: Sequence[LoadStep]) -> bool:
        if self.loop == "open":
            return is_overloaded(by_load[-1])
        last = by_load[-1]
        below = [step for step in by_load if step.load <= last.load / self.growth]
        if not below:
            return False
        return last.throughput_rps.value < _FLAT_SHARE * below[-1].throughput_rps.value

    def _choose_load_between(self, by_load: Sequence[LoadStep]) -> float | None:
        """Return the geometric mean of the last sustained load and the next load.

        Returns None if there is nothing left to measure between them.
        """
        borne = self._find_last_sustained(by_load)
        if borne is None or borne == len(by_load) - 1:
            return None
        low, high = by_load[borne].load, by_load[borne + 1].load
        if high / low <= self.finest:
            return None
        middle = self._round_load(math.sqrt(low * high))
        return middle if low < middle < high else None

    def _find_last_sustained(self, by_load: Sequence[LoadStep]) -> int | None:
        """Return the index of the highest load below the first that isn't sustained.

        Returns None if the lowest load isn't sustained.
        """
        if self.objective:
            met = [self.objective.is_met_by(step) for step in by_load]
        elif self.loop == "open":
            met = [not is_overloaded(step) for step in by_load]
        else:
            most = max(step.throughput_rps.value for step in by_load)
            met = [step.throughput_rps.value < 0.95 * most for step in by_load]
        if not met[0]:
            return None
        return met.index(False) - 1 if False in met else len(met) - 1

    def _round_load(self, load: float) -> float:
        return float(round(load)) if self.loop == "closed" else load


# The kernel walks all pages of a process for it: more often it would cost too much.
_MEMORY_SECONDS = 2.0
_LOOK_SECONDS = 0.5
# Lowers the endpoint's CPU share to a third: the generator comes first, and beside other work on this
# computer the endpoint still gets a share.
_NICENESS = 5


class UsageWatch:
    """The CPU and memory use of a process tree between the calls of `sample()`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: list[tuple[float, float]] = []
        self._memory_mib, self._memory_at = 0.0, float("-inf")

    def sample(self) -> None:
        now = time.monotonic()
        if self._looks and now - self._looks[-1][0] < _LOOK_SECONDS:
            return
        processes = _list_processes(self._pid)
        self._looks.append((now, sum(_read_each(processes, _read_cpu_seconds))))
        if now - self._memory_at >= _MEMORY_SECONDS:
            self._memory_at = now
            self._memory_mib = max(self._memory_mib, sum(_read_each(processes, _read_pss_mib)))

    def compute_usage(self) -> Usage | None:
        """Return the usage; None if there were fewer than two samples."""
        if len(self._looks) < 2:
            return None
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        # A process that ended meanwhile has taken its time with it.
        cores = max(0.0, after - before) / (ended - began)
        return Usage(cpu_cores=cores, memory_mib=self._memory_mib)


def lower_priority(pid: int, *, entirely: bool = False) -> None:
    """Lower the priority of a process and its children.

    On Linux, the priority of each of their threads is lowered.

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


def _read_each(
    processes: Sequence[psutil.Process], read: Callable[[psutil.Process], float]
) -> Iterator[float]:
    for process in processes:
        with suppress(psutil.Error):  # it has ended
            yield read(process)


def _read_cpu_seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _read_pss_mib(process: psutil.Process) -> float:
    """Return the proportional set size in MiB.

    Each shared page counts in equal parts for the processes that share it. On macOS, return only
    the process's own pages. Source: proc(5).
    """
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", memory.uss)) / 1024**2  # macOS: its own pages


Kept = Callable[[LoadCurve], None]
Progress = Callable[[LoadCurve, float, dict[str, Any]], None]


def measure_curve(
    generator: LoadGenerator,
    schedule: Schedule,
    pace: Pace,
    asked: MeasuredTarget,
    *,
    target_pid: int | None = None,
    attempts: int = 2,
    kept: Kept = lambda curve: None,
    progress: Progress = lambda curve, load, found: None,
) -> LoadCurve:
    """Measure every step and return the load curve. Raises LoadError.

    `kept` is called after each step, `progress` often. Ctrl-C ends the measurement: the curve's
    `ended` is then "interrupted", and it contains the complete steps.

    `target_pid`: process of a target on this computer, whose CPU and memory are watched.
    `attempts`: maximum measurements of a step whose requests were sent late; the last one is
    kept.
    """
    curve = LoadCurve(asked=asked, loop=schedule.loop, steps=(), ended="interrupted")
    try:
        while (load := schedule.choose_next_load(curve.steps)) is not None:
            for left in reversed(range(attempts)):
                watch = UsageWatch(target_pid) if target_pid else None
                step = generator.run_step(
                    load, pace, partial(_sample_and_report, curve, load, watch, progress)
                )
                if step.rejection is None or not left:
                    break
            used = dataclasses.replace(step, target=watch.compute_usage() if watch else None)
            curve = curve.add_step(used)
            kept(curve)
    except KeyboardInterrupt:
        return curve
    curve = dataclasses.replace(curve, ended=schedule.describe_end(curve.steps))
    kept(curve)
    return curve


def _sample_and_report(
    curve: LoadCurve,
    load: float,
    watch: UsageWatch | None,
    progress: Progress,
    found: dict[str, Any],
) -> None:
    if watch and found["seconds"] > 0:
        watch.sample()
    progress(curve, load, found)
