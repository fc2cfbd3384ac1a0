"""A load test: steps as the schedule wants them, each kept as soon as it is known."""

import dataclasses
from collections.abc import Callable
from typing import Any

from servable.load.endpoint_processes import UsageWatch
from servable.load.load_generator import LoadGenerator
from servable.load.measurement import LoadCurve, LoadStep, MeasuredTarget
from servable.load.pace import Pace
from servable.load.schedule import Schedule

Kept = Callable[[LoadCurve], None]
Progress = Callable[[LoadCurve, float, dict[str, Any]], None]


def measure(
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
    """`kept` is told after every step, `progress` several times a second. Raises LoadError.

    Ctrl-C ends it: the curve says "interrupted" and has all that was measured until then.
    `target_pid`: process of a target on this computer, whose CPU and memory are watched. `attempts`: so often
    at most a step is measured whose requests were sent late; the last one is kept.
    """
    curve = LoadCurve(asked=asked, loop=schedule.loop, steps=(), ended="interrupted")
    try:
        while (load := schedule.next(curve.steps)) is not None:
            try:
                for left in reversed(range(attempts)):
                    watch = UsageWatch(target_pid) if target_pid else None
                    step = generator.step(load, pace, _watched(curve, load, watch, progress))
                    if step.refused is None or not left:
                        break
            except KeyboardInterrupt:
                last = generator.interrupted()
                # One that had hardly begun knows nothing, and would be read as if it did.
                if last and last.throughput_rps.low > 0:
                    curve = curve.with_step(_used(last, watch))
                    kept(curve)
                raise
            curve = curve.with_step(_used(step, watch))
            kept(curve)
    except KeyboardInterrupt:
        return curve
    curve = dataclasses.replace(curve, ended=schedule.ended(curve.steps))
    kept(curve)
    return curve


def _watched(
    curve: LoadCurve, load: float, watch: UsageWatch | None, progress: Progress
) -> Callable[[dict[str, Any]], None]:
    def told(so_far: dict[str, Any]) -> None:
        if watch and so_far["seconds"] > 0:
            watch.look()
        progress(curve, load, so_far)

    return told


def _used(step: LoadStep, watch: UsageWatch | None) -> LoadStep:
    return dataclasses.replace(step, target=watch.found() if watch else None)
