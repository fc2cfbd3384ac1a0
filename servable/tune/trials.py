"""A trial: an endpoint with other settings, a short load test, its knee."""

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

from infra.catalog.prices import price
from model_packaging.private_folder import private_folder
from servable.load.endpoint_processes import yielding
from servable.load.knee import Knee, knee
from servable.load.load_generator import LoadError, LoadGenerator
from servable.load.load_target import Body, container
from servable.load.load_test import measure
from servable.load.measurement import CURVE, Asked, LoadCurve
from servable.load.pace import Pace
from servable.load.reached import Reached
from servable.load.schedule import Schedule
from servable.serve.container import serve_double
from servable.serve.serve import prepared
from servable.tune.machine_space import Machines
from servable.tune.objective import Goal, Objective, usd_per_million, worth
from servable.tune.search.space import Point
from servable.tune.search.trial import Measured
from servable_local.container.launch import LaunchError

# A limit from the file that one caller already comes near to on this machine ranks nothing.
NEAR = 0.5
SLOWER_THAN_ALONE = 4.0
# A step whose requests were sent late says nothing of the settings: it is measured again.
ATTEMPTS = 3
STARTED_AGAIN = 2
# Settings that are much better than today's have their knee at a higher load: looked for twice as far,
# and twice as far again.
FURTHER = 2


class NotServedError(Exception):
    """The settings do not start. `str()` says why."""


class Trials(ABC):
    """Measures points; one generator asks all of them. A context manager."""

    trial_pace: Pace
    """Short, since many are compared; the model of the search knows that they are noisy."""
    curve_pace: Pace
    """Of the curves that are shown."""

    def __init__(
        self,
        machines: Machines,
        bodies: Sequence[Body],
        folder: Path,
        *,
        goal: Goal = "throughput",
        usd_per_hour: float | None = None,
    ) -> None:
        """`folder`: of the run, for curves and what containers say.

        `usd_per_hour`: what today's instance type costs; None: as the catalog says.
        """
        self.machines, self._bodies, self._folder, self._goal = machines, bodies, folder, goal
        self._generator: LoadGenerator | None = None
        self._stated_usd_per_hour = usd_per_hour

    @abstractmethod
    def reached(self, point: Point) -> AbstractContextManager[Reached]:
        """It serves with these settings. Raises NotServed."""

    def usd_per_hour(self, point: Point) -> float | None:
        """Of the instance; None where no source states it."""
        return self.price_of(self.machines.kind_of(point))

    def price_of(self, kind: str) -> float | None:
        environment = self.machines.kinds[self.machines.today].loaded.environment
        assert environment is not None  # it was placed
        if kind == self.machines.today and self._stated_usd_per_hour is not None:
            return self._stated_usd_per_hour
        known = price(kind, environment.region)
        return known.usd_per_hour if known else None

    @property
    def spent_usd(self) -> float:
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._generator is not None:
            self._generator.close()

    def objective(self, today: Point, stated_ms: float | None, percent: float) -> Objective:
        """The file's limit; where this machine is too slow for it, one that it can rank by."""
        schedule = Schedule(loop="closed", fixed=(1.0,))
        curve = self._curve(today, schedule, self.trial_pace, kept=None)
        alone_ms = curve.steps[0].latencies.percentile_ms(percent)
        if stated_ms is not None and alone_ms <= NEAR * stated_ms:
            return Objective(percent=percent, most_ms=stated_ms)
        return Objective(percent=percent, most_ms=float(f"{SLOWER_THAN_ALONE * alone_ms:.2g}"))

    def full_curve(self, point: Point, objective: Objective, name: str) -> LoadCurve:
        """Every load up to where it is full. Raises NotServed, LoadError."""
        schedule = Schedule(loop="closed", objective=objective, finest=1.3)
        return self._curve(point, schedule, self.curve_pace, kept=self._folder / name)

    def trial(self, point: Point, objective: Objective, users: float) -> Measured:
        """Loads around the knee of today's settings, and beyond where it is. Raises LoadError."""
        about = users * self.machines.larger(point)
        loads = tuple(dict.fromkeys(max(1.0, round(about * step)) for step in (0.5, 1.0, 2.0)))
        schedule = Schedule(loop="closed", fixed=loads, objective=objective, further=FURTHER)
        spent_usd = self.spent_usd
        for _ in range(STARTED_AGAIN):
            name = Path("trials") / f"{time.time_ns()}"
            try:
                curve = self._curve(point, schedule, self.trial_pace, kept=self._folder / name)
            except NotServedError as error:
                cost = {"usd": self.spent_usd - spent_usd}
                return Measured(value=0.0, failure=str(error).splitlines()[0], about=cost)
            found = knee(curve, objective)
            if (late := lateness(curve, found)) is None:
                measured = measured_of(curve, found, objective, str(name))
                return self._valued(measured, point, self.spent_usd - spent_usd)
        raise LoadError(f"again and again {late}; the same command goes on when it is quiet")

    def _valued(self, found: Measured, point: Point, spent_usd: float) -> Measured:
        price = self.usd_per_hour(point)
        about: dict[str, Any] = {**found.about, "usd": spent_usd}
        if price is not None and found.value > 0:
            about["usd_per_million"] = usd_per_million(found.value, price)
        value = worth(self._goal, found.value, price) if found.value > 0 else 0.0
        return dataclasses.replace(found, value=value, about=about)

    def _curve(
        self, point: Point, schedule: Schedule, pace: Pace, *, kept: Path | None
    ) -> LoadCurve:
        with self.reached(point) as reached:
            if self._generator is None:
                self._generator = LoadGenerator(
                    reached.target, self._bodies, loop="closed", variables=reached.variables
                )
            else:
                self._generator.aim(reached.target, self._bodies, loop="closed")
            curve = measure(
                self._generator,
                schedule,
                pace,
                reached.asked,
                target_pid=reached.pid,
                attempts=ATTEMPTS,
            )
        if curve.ended == "interrupted":
            raise KeyboardInterrupt
        if kept is not None:
            curve.write(kept / CURVE)
        return curve


def measured_of(curve: LoadCurve, found: Knee | None, objective: Objective, name: str) -> Measured:
    """Its knee is the value; `name`: of the curve, for the report."""
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


def lateness(curve: LoadCurve, found: Knee | None) -> str | None:
    """Why this curve cannot be compared with others: what may be its knee was measured late."""
    if not curve.valid:
        return curve.steps[0].refused
    highest = max(curve.steps, key=lambda step: step.load)
    if found is None or found.bounded:
        return None
    # Without its highest load it only seems to bear less than the others.
    return highest.refused


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)

    def __init__(
        self,
        machines: Machines,
        bodies: Sequence[Body],
        asked: Asked,
        folder: Path,
        *,
        goal: Goal = "throughput",
        usd_per_hour: float | None = None,
    ) -> None:
        super().__init__(machines, bodies, folder, goal=goal, usd_per_hour=usd_per_hour)
        one = machines.kinds[machines.today]
        self._archive = prepared(one.loaded, variant=one.placement.name).archive
        self._asked = asked

    @contextmanager
    def reached(self, point: Point) -> Iterator[Reached]:
        one = self.machines.of(point)
        served = prepared(one.at(point), variant=one.placement.name, archive=self._archive)
        private_folder(self._folder)
        try:
            with serve_double(served, port=0, log=self._folder / "containers.log") as process:
                yielding(process.pid, entirely=True)
                yield Reached(target=container(process.url), asked=self._asked, pid=process.pid)
        except LaunchError as error:
            raise NotServedError(str(error)) from None
