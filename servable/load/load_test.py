"""Run a load test: start the generator, choose the loads, measure the steps, and watch a local target.

    with LoadGenerator(target, bodies, loop="closed") as generator:
        curve = measure_curve(generator, Schedule(loop="closed"), Pace(), asked)

Locust patches the process that it runs in, so it runs in other processes; this one only sends and
reads messages.

The load rises until more load brings no more throughput; then loads around the knee are measured.
This is AWS's method: users are added until the throughput stays flat.

Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
"""

import base64
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
from pydantic import TypeAdapter

from servable.load.measurement import (
    Body,
    LoadCurve,
    LoadError,
    LoadStep,
    LoadTarget,
    Loop,
    MeasuredTarget,
    Pace,
    Usage,
)
from servable.load.objective import Objective, is_overloaded

Progress = Callable[[dict[str, Any]], None]
_STEP = TypeAdapter(LoadStep)
_MODULE = [sys.executable, "-m", "servable.load.generator"]
LOCALHOST = "127.0.0.1"
_END_SECONDS = 5.0


class LoadGenerator:
    def __init__(
        self,
        target: LoadTarget,
        bodies: Sequence[Body],
        *,
        loop: Loop,
        processes: int = 1,
        listen: tuple[str, int] | None = None,
        locustfile: Path | None = None,
        variables: Mapping[str, str] | None = None,
        on_listen: Callable[[str, int], None] = lambda host, port: None,
    ) -> None:
        """Start the processes, each of which sends some thousands of requests per second.

        Raises LoadError.

        `listen`: address where processes join with `servable load --join`; None: start the
        processes here. The connection is unencrypted, so use a private network. Port 0 selects
        any free port, and `on_listen` is called with the address.

        `locustfile`: file with the user classes; None: users that send `bodies`.

        `variables`: environment of the processes; None: that of this process.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        self._workers: list[subprocess.Popen[bytes]] = []
        host, port = listen or (LOCALHOST, 0)

        def start(role: str) -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                _build_command(role, host, port, processes, locustfile),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if role != "worker" else subprocess.DEVNULL,
                stderr=self._log,
                env=variables,
                process_group=0,  # Ctrl-C goes to this process, which ends the others
            )

        alone = processes == 1 and listen is None
        self._head = start("alone" if alone else "master")
        try:
            if not alone:
                port = self._read("port")
            if listen:
                on_listen(host, port)
            elif not alone:
                for _ in range(processes):
                    self._workers.append(start("worker"))
            self.set_target(target, bodies, loop=loop)
        except BaseException:  # Ctrl-C while waiting leaves no process, either
            self.close()
            raise

    def set_target(self, target: LoadTarget, bodies: Sequence[Body], *, loop: Loop) -> None:
        """Send different requests from now on, with the same processes.

        Reusing the processes avoids starting new ones, which takes a second.
        """
        self._target, self._loop = target, loop
        sent = [
            dataclasses.asdict(body) | {"content": base64.b64encode(body.content).decode()}
            for body in bodies
        ]
        self._write(plan={"target": dataclasses.asdict(target), "bodies": sent, "loop": loop})
        self._read("ready")

    def run_step(
        self, load: float, pace: Pace, progress: Progress = lambda found: None
    ) -> LoadStep:
        """Run one load step and return its measurements. Raises LoadError.

        `load`: number of users in a closed loop, requests per second in an open loop.
        """
        options: dict[str, Any] = dataclasses.asdict(pace) | {
            "users": round(load) if self._loop == "closed" else None,
            "rate_rps": load if self._loop == "open" else None,
            "timeout_seconds": self._target.timeout_seconds,
        }
        self._write(step=options)
        return _STEP.validate_python(self._read("done", progress))

    def close(self) -> None:
        """Stop the processes. Idempotent."""
        for process in (self._head, *self._workers):
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    with suppress(OSError):  # the process ended first
                        pipe.close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _write(self, **message: Any) -> None:
        assert self._head.stdin is not None  # a pipe
        try:
            self._head.stdin.write(json.dumps(message).encode() + b"\n")
            self._head.stdin.flush()
        except BrokenPipeError:
            raise self._build_end_error() from None

    def _read(self, wanted: str, progress: Progress = lambda found: None) -> Any:
        assert self._head.stdout is not None  # a pipe
        for line in self._head.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # printed by a locustfile, or cut off by Ctrl-C
            if "error" in message:
                raise LoadError(message["error"])
            if wanted in message:
                return message[wanted]
            if "progress" in message:
                progress(message["progress"])
        raise self._build_end_error()

    def _build_end_error(self) -> LoadError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()[-10:]
        return LoadError("\n".join(["the load generator's process has ended.", *lines]))


def _build_command(role: str, host: str, port: int, processes: int, file: Path | None) -> list[str]:
    command = [*_MODULE, role, host, str(port), str(processes)]
    return command if file is None else [*command, str(file.resolve())]


def join_load_test(host: str, port: int, locustfile: Path | None = None) -> None:
    """Send requests for a load test that runs on another computer.

    Returns when the process ends. Raises KeyboardInterrupt.
    """
    command = _build_command("worker", host, port, 1, locustfile)
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
    try:
        worker.wait()
    finally:
        assert worker.stdin is not None  # a pipe
        worker.stdin.close()  # ends the process
        worker.wait()


# The curve is flat if a multiple of the load brings less than this much more throughput.
_FLAT_SHARE = 1.05
# A target that mostly fails isn't measured further.
_FAILING_SHARE = 0.5
# Doubling reaches any load in a few steps.
_GROWTH = 2.0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The order of loads in one load test."""

    loop: Loop
    first: float = 1.0
    most: float = 4096.0
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
            grows = len(steps) < 2 or not _is_flat(steps[-1], steps[-2])
            left = len(steps) < len(self.fixed) + self.further and steps[-1].rejection is None
            met = self.objective is not None and self.objective.is_met_by(steps[-1])
            return self._raise_load(steps[-1]) if left and met and grows else None
        if not steps:
            return self.first
        by_load = sorted(steps, key=lambda step: step.load)
        if not self._has_reached_top(by_load) and by_load[-1].load < self.most:
            return self._raise_load(by_load[-1])
        return self._choose_load_between(by_load)

    def describe_end(self, steps: Sequence[LoadStep]) -> str:
        """Return "failing", "saturated", or "done"."""
        by_load = sorted(steps, key=lambda step: step.load)
        if by_load and by_load[-1].failed_share > _FAILING_SHARE:
            return "failing"
        return "saturated" if self._is_saturated(by_load) else "done"

    def _has_reached_top(self, by_load: Sequence[LoadStep]) -> bool:
        last = by_load[-1]
        if last.rejection is not None or last.failed_share > _FAILING_SHARE:
            return True
        if self.objective and self.objective.is_met_by(last):
            # The load that breaks the objective is still to come. If the curve is flat twice, it may
            # never come.
            return self._is_saturated(by_load) and self._is_saturated(by_load[:-1])
        return self._is_saturated(by_load)

    def _is_saturated(self, by_load: Sequence[LoadStep]) -> bool:
        if not by_load or self.loop == "open":
            return bool(by_load) and is_overloaded(by_load[-1])
        below = [step for step in by_load if step.load <= by_load[-1].load / _GROWTH]
        return bool(below) and _is_flat(by_load[-1], below[-1])

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
        return self._round_load(min(self.most, last.load * _GROWTH))

    def _round_load(self, load: float) -> float:
        return float(round(load)) if self.loop == "closed" else load


def _is_flat(step: LoadStep, below: LoadStep) -> bool:
    return step.throughput_rps.value < _FLAT_SHARE * below.throughput_rps.value


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
