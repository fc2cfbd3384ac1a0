"""Run a load test: choose the loads, and measure the steps.

    with LoadGenerator(target, bodies, loop="closed") as generator:
        curve = measure_curve(generator, Schedule(loop="closed"), Pace(), asked)

The load rises until more load brings no more throughput; then loads around the knee are measured.
This is AWS's method: users are added until the throughput stays flat.

Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from servable.load.objective import Objective, is_overloaded
from servable.load.processes import LoadGenerator
from servable.measured.measurement import LoadCurve, LoadStep, Loop, MeasuredTarget, Pace
from servable.measured.targets import UsageWatch

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
        # If the load that breaks the objective is still to come: it may never, if the curve is flat twice.
        met = self.objective is not None and self.objective.is_met_by(last)
        return self._is_saturated(by_load) and (not met or self._is_saturated(by_load[:-1]))

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
            step = dataclasses.replace(step, target=used)
            curve = dataclasses.replace(curve, steps=(*curve.steps, step))
            kept(curve)
    except KeyboardInterrupt:
        return curve
    curve = dataclasses.replace(curve, ended=schedule.describe_end(curve.steps))
    kept(curve)
    return curve
