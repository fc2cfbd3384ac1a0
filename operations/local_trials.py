"""A trial on this machine: the endpoint with other settings, a short load test, its knee."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from local.endpoint.launch import LaunchError
from operations.serve import Served, prepared
from operations.serving import serve_double
from tuning.bodies import Body
from tuning.container_space import settings_at
from tuning.knee import Knee, knee
from tuning.load_generator import LoadError, LoadGenerator, Pace
from tuning.load_test import measure
from tuning.measurement import CURVE, Asked, LoadCurve
from tuning.objective import Objective
from tuning.schedule import Schedule
from tuning.search.space import Point
from tuning.search.trial import Measured
from tuning.target import container

# Of a trial: short, since many are compared; the model of the search knows that they are noisy.
TRIAL_PACE = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=5.0)
# Of the curves that are shown.
CURVE_PACE = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=8.0)
# A limit from the file that one caller already comes near to on this machine ranks nothing.
NEAR = 0.5
SLOWER_THAN_ALONE = 4.0
# A step whose requests were sent late says nothing of the settings: it is measured again.
ATTEMPTS = 3
# The endpoint's processes yield to the generator, which is on the same cores and must not be late.
NICENESS = 5


class LocalTrials:
    """Measures points; one generator asks all of them. A context manager."""

    def __init__(
        self,
        loaded: Loaded,
        placement: Placement,
        bodies: Sequence[Body],
        asked: Asked,
        folder: Path,
    ) -> None:
        """`folder`: of the run, for curves and what containers say."""
        self._loaded, self._placement, self._asked = loaded, placement, asked
        self._bodies, self._folder = bodies, folder
        self._archive = prepared(loaded, variant=placement.name).archive
        self._generator: LoadGenerator | None = None

    def __enter__(self) -> "LocalTrials":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._generator is not None:
            self._generator.close()

    def objective(self, today: Point, stated_ms: float | None, percent: float) -> Objective:
        """The file's limit; where this machine is too slow for it, one that it can rank by."""
        curve = self._curve(today, Schedule(loop="closed", fixed=(1.0,)), TRIAL_PACE, kept=None)
        alone_ms = curve.steps[0].latencies.percentile_ms(percent)
        if stated_ms is not None and alone_ms <= NEAR * stated_ms:
            return Objective(percent=percent, most_ms=stated_ms)
        return Objective(percent=percent, most_ms=float(f"{SLOWER_THAN_ALONE * alone_ms:.2g}"))

    def full_curve(self, point: Point, objective: Objective, name: str) -> LoadCurve:
        """Every load up to where it is full. Raises LaunchError, LoadError."""
        schedule = Schedule(loop="closed", objective=objective, finest=1.3)
        return self._curve(point, schedule, CURVE_PACE, kept=self._folder / name)

    def trial(self, point: Point, objective: Objective, users: float) -> Measured:
        """Three loads around the knee of today's settings. Raises LoadError."""
        loads = tuple(dict.fromkeys(max(1.0, round(users * step)) for step in (0.5, 1.0, 2.0)))
        schedule = Schedule(loop="closed", fixed=loads)
        for _ in range(ATTEMPTS):
            name = Path("trials") / f"{time.time_ns()}"
            try:
                curve = self._curve(point, schedule, TRIAL_PACE, kept=self._folder / name)
            except LaunchError as error:
                return Measured(value=0.0, failure=str(error).splitlines()[0])
            if curve.valid:
                return measured_of(curve, knee(curve, objective), objective, str(name))
        raise LoadError(f"{curve.steps[0].refused}; the same command goes on when it is quiet")

    def _curve(
        self, point: Point, schedule: Schedule, pace: Pace, *, kept: Path | None
    ) -> LoadCurve:
        with serve_double(self._served(point), port=0, log=self._log()) as process:
            _yielding(process.pid)
            target = container(process.url)
            if self._generator is None:
                self._generator = LoadGenerator(target, self._bodies, loop="closed")
            else:
                self._generator.aim(target, self._bodies, loop="closed")
            curve = measure(self._generator, schedule, pace, self._asked, target_pid=process.pid)
        if curve.ended == "interrupted":
            raise KeyboardInterrupt
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            curve.write(kept / CURVE)
        return curve

    def _served(self, point: Point) -> Served:
        """As today's, with the variables of the point's settings."""
        environment, name = self._loaded.environment, self._placement.name
        assert environment is not None  # it was placed
        container = settings_at(point, self._placement)
        variant = environment.variants[name].model_copy(update={"container": container})
        variants = {**environment.variants, name: variant}
        changed = environment.model_copy(update={"variants": variants})
        loaded = dataclasses.replace(self._loaded, environment=changed, draft=changed)
        return prepared(loaded, variant=name, archive=self._archive)

    def _log(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / "containers.log"


def _yielding(pid: int) -> None:
    head = psutil.Process(pid)
    for one in (head, *head.children(recursive=True)):
        try:
            one.nice(NICENESS)
        except psutil.Error:
            pass  # it has ended


def measured_of(curve: LoadCurve, found: Knee | None, objective: Objective, name: str) -> Measured:
    """The knee as what a search learns from."""
    about: dict[str, Any] = {"curve": name}
    if found is None:
        lowest = curve.valid[0].latencies.percentile_ms(objective.percent)
        why = f"over {objective.most_ms:g} ms: {lowest:.4g} at the lowest load"
        return Measured(value=0.0, failure=why, about=about)
    steps = [step for step in curve.valid if step.load <= found.load.value] or [curve.valid[0]]
    step = steps[-1]
    about |= {
        "rps": dataclasses.asdict(found.rps),
        "users": found.load.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
    }
    return Measured(value=found.rps.value, about=about)
