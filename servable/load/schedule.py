"""Which load comes next: up until more load is no more throughput, then closer to the knee.

AWS's method: users are added until the throughput stays flat.
Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from servable.load.measurement import LoadStep, Loop
from servable.load.objective import Objective, overloaded

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

    def next(self, steps: Sequence[LoadStep]) -> float | None:
        """None: done; `ended(steps)` says why."""
        if self.fixed:
            number = len(steps)
            return self.fixed[number] if number < len(self.fixed) else self._further(steps)
        if not steps:
            return self.first
        by_load = sorted(steps, key=lambda step: step.load)
        if not self._is_top(by_load) and by_load[-1].load < self.most:
            return self._whole(min(self.most, by_load[-1].load * self.growth))
        return self._between(by_load)

    def _further(self, steps: Sequence[LoadStep]) -> float | None:
        last, before = steps[-1], steps[-2:-1]
        if len(steps) >= len(self.fixed) + self.further or last.refused is not None:
            return None
        if self.objective is None or not self.objective.met_by(last):
            return None
        if before and last.throughput_rps.value < _FLAT_SHARE * before[0].throughput_rps.value:
            return None
        return self._whole(min(self.most, last.load * self.growth))

    def ended(self, steps: Sequence[LoadStep]) -> str:
        by_load = sorted(steps, key=lambda step: step.load)
        if by_load and by_load[-1].failed_share > _FAILING_SHARE:
            return "failing"
        return "saturated" if by_load and self._is_flat(by_load) else "done"

    def _is_top(self, by_load: Sequence[LoadStep]) -> bool:
        last = by_load[-1]
        if last.refused is not None or last.failed_share > _FAILING_SHARE:
            return True
        if self.objective:
            latency = last.latencies.percentile_ms(self.objective.percent)
            if latency > _TOO_SLOW * self.objective.most_ms:
                return True
            if self.objective.met_by(last):
                # Flat or not: the load that breaks the objective is still to come. What is flat
                # and meets it may stay so for ever.
                return self._is_flat(by_load) and len(by_load) > 1 and self._is_flat(by_load[:-1])
        return self._is_flat(by_load)

    def _is_flat(self, by_load: Sequence[LoadStep]) -> bool:
        if self.loop == "open":
            return overloaded(by_load[-1])
        last = by_load[-1]
        below = [step for step in by_load if step.load <= last.load / self.growth]
        if not below:
            return False
        return last.throughput_rps.value < _FLAT_SHARE * below[-1].throughput_rps.value

    def _between(self, by_load: Sequence[LoadStep]) -> float | None:
        """Halfway, by ratio, between the last load that is borne and the first that is not."""
        borne = self._borne(by_load)
        if borne is None or borne == len(by_load) - 1:
            return None
        low, high = by_load[borne].load, by_load[borne + 1].load
        if high / low <= self.finest:
            return None
        middle = self._whole(math.sqrt(low * high))
        return middle if low < middle < high else None

    def _borne(self, by_load: Sequence[LoadStep]) -> int | None:
        """The place of the highest load below the first that is not borne."""
        if self.objective:
            met = [self.objective.met_by(step) for step in by_load]
        elif self.loop == "open":
            met = [not overloaded(step) for step in by_load]
        else:
            most = max(step.throughput_rps.value for step in by_load)
            met = [step.throughput_rps.value < 0.95 * most for step in by_load]
        if not met[0]:
            return None
        return met.index(False) - 1 if False in met else len(met) - 1

    def _whole(self, load: float) -> float:
        return float(round(load)) if self.loop == "closed" else load
