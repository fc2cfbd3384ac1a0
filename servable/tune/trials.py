"""Trials: an endpoint with other settings, a short load test, its knee.

The endpoint is a local container, or in SageMaker a temporary copy of the live one.
"""

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter

from infra.parameters.loading import ValidFile
from model_packaging.beside import create_private_folder, write_atomically
from servable.load.load_generator import LoadError, LoadGenerator
from servable.load.load_target import Pace, container
from servable.load.load_test import Schedule, measure, yielding
from servable.load.measurement import CURVE, LoadCurve, LoadStep
from servable.load.objective import Knee, Objective, knee, objective_value, usd_per_million
from servable.load.reached import ReadyTarget, asked_of, at_endpoint
from servable.load.temporary.endpoints import (
    BudgetSpentError,
    Ledger,
    LiveVariant,
    NotInServiceError,
    TemporaryEndpoints,
    explained,
)
from servable.measured.precision import format_number
from servable.project.provided import LaunchError
from servable.serve.serve import prepare_variant, serve_locally
from servable.tune.run import Run
from servable.tune.search.space import Measurement, Point

# Loads of one trial, and of a curve up to a hundred users, refined around the knee.
TRIAL_STEPS, CURVE_STEPS = 3, 8
# A limit from the file that one caller already comes near to on this computer ranks nothing.
NEAR = 0.5
SLOWER_THAN_ALONE = 4.0
# One caller is measured so often, and the quietest time counts: what disturbs only slows.
ALONE = 3
# Other programs may use this share of the CPU cores. A busy computer is waited for so many seconds.
BUSY_SHARE, WAIT_SECONDS = 0.15, 10
# A step whose requests were sent late says nothing of the settings: it is measured again.
ATTEMPTS = 3
STARTED_AGAIN = 2
# Settings that are much better than today's have their knee at a higher load: looked for twice as far,
# and twice as far again.
FURTHER = 2


class NotServedError(Exception):
    """The settings do not start. `str()` says why."""


@dataclass(frozen=True, kw_only=True)
class ReferenceLoad:
    """The load around which every trial is measured, the knee of today's settings."""

    users: float
    seconds: float
    """Seconds that finding it took."""
    usd: float = 0.0


OBJECTIVE = "objective.json"
_OBJECTIVE, _AROUND = TypeAdapter(Objective), TypeAdapter(ReferenceLoad)


def kept_objective(folder: Path) -> Objective:
    """Read the objective of the run in this folder. Raises OSError, ValueError."""
    return _OBJECTIVE.validate_json((folder / OBJECTIVE).read_bytes())


class Trials(ABC):
    """Measures points; one generator asks all of them. A context manager."""

    trial_pace: Pace
    """Short, since many are compared; the model of the search knows that they are noisy."""
    curve_pace: Pace
    """Pace of the curves that are shown."""
    start_seconds: float
    """Until an endpoint serves, about; for what is said before one was started."""

    def __init__(self, run: Run) -> None:
        self._run, self.machines = run, run.machines
        self._generator: LoadGenerator | None = None

    @abstractmethod
    def reached(self, point: Point) -> AbstractContextManager[ReadyTarget]:
        """Serve with these settings while the context lasts. Raises NotServedError."""

    def seconds_expected(self) -> tuple[float, float]:
        """Return the seconds of a load curve and of a trial, before one was measured."""
        curve, trial = self.curve_pace, self.trial_pace
        return (
            self.start_seconds + CURVE_STEPS * (curve.warm_up_seconds + curve.least_seconds),
            self.start_seconds + TRIAL_STEPS * (trial.warm_up_seconds + trial.least_seconds),
        )

    def price_of(self, kind: str) -> float | None:
        """Return the price of an instance type, or None if neither the file nor the catalog states it."""
        environment = self._run.environment
        price = environment.prices.find_instance_price(kind, environment.region)
        return price.usd_per_hour if price else None

    @property
    def spent_usd(self) -> float:
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._generator is not None:
            self._generator.close()

    def objective(self) -> Objective:
        """Return the objective of every trial. Decided once: a resumed run keeps it."""
        kept, most_ms = self._run.folder / OBJECTIVE, self._run.options.most_ms
        busy = self.busy_share()
        if busy > BUSY_SHARE:
            self._run.progress.stage(
                f"other programs use {busy:.0%} of this computer's CPU cores, so trials will vary more; "
                "end them for a result that you can rely on"
            )
        if kept.exists():
            return kept_objective(self._run.folder)
        if most_ms is not None:
            objective = Objective(most_ms=most_ms)
        else:
            self._run.progress.stage("one caller alone, at today's settings")
            objective = self._objective(self._run.environment.alarms.p99_latency_ms, busy)
        write_atomically(kept, _OBJECTIVE.dump_json(objective))
        return objective

    def busy_share(self) -> float:
        """Return the share of the CPU cores that other programs use where trials are measured."""
        return 0.0

    def _objective(self, stated_ms: float | None, busy: float) -> Objective:
        """Return the file's limit; where this computer is too slow for it, one that it can rank by."""
        schedule = Schedule(loop="closed", fixed=(1.0,) * ALONE)
        curve = self._curve(self.machines.wanted[0], schedule, self.trial_pace, kept=None)
        return limit_beside(curve.steps, stated_ms, busy=busy)

    def around(self, objective: Objective) -> ReferenceLoad:
        """Return the load around which trials are measured. Decided once, like the objective."""
        kept, tried = self._run.folder / "around.json", self.machines.space
        if kept.exists():
            return _AROUND.validate_json(kept.read_bytes())
        self._run.progress.stage("the load curve of today's settings")
        began, spent_usd = time.monotonic(), self.spent_usd
        point = tried.point(tried.nearest(self.machines.wanted[0]))
        curve = self.full_curve(point, objective, "today")
        at_knee = knee(curve, objective)
        late = next((step.refused for step in curve.steps if step.refused), None)
        if at_knee is None and late:
            # Whatever came then would be blamed on the settings or on the limit.
            raise LoadError(f"today's settings: {late}; the same command goes on when it is quiet")
        around = ReferenceLoad(
            users=max(2.0, round(at_knee.load.value)) if at_knee else 2.0,
            seconds=time.monotonic() - began,
            usd=self.spent_usd - spent_usd,
        )
        write_atomically(kept, _AROUND.dump_json(around))
        return around

    def full_curve(self, point: Point, objective: Objective, name: str) -> LoadCurve:
        """Measure every load up to where it is full. Raises NotServedError, LoadError."""
        schedule = Schedule(loop="closed", objective=objective, finest=1.3)
        return self._curve(point, schedule, self.curve_pace, kept=self._run.folder / name)

    def trial(self, point: Point, objective: Objective, users: float) -> Measurement:
        """Measure loads around the knee of today's settings, and beyond if it is there. Raises LoadError."""
        about = users * self.machines.larger(point)
        loads = tuple(dict.fromkeys(max(1.0, round(about * step)) for step in (0.5, 1.0, 2.0)))
        schedule = Schedule(loop="closed", fixed=loads, objective=objective, further=FURTHER)
        spent_usd = self.spent_usd
        for _ in range(STARTED_AGAIN):
            name = Path("trials") / f"{time.time_ns()}"
            try:
                curve = self._curve(point, schedule, self.trial_pace, kept=self._run.folder / name)
            except NotServedError as error:
                cost = {"usd": self.spent_usd - spent_usd}
                return Measurement(value=0.0, failure=str(error).splitlines()[0], about=cost)
            at_knee = knee(curve, objective)
            if (late := lateness(curve, at_knee)) is None:
                measured = measured_of(curve, at_knee, objective, str(name))
                return self._valued(measured, point, self.spent_usd - spent_usd)
        raise LoadError(f"again and again {late}; the same command goes on when it is quiet")

    def _valued(self, raw: Measurement, point: Point, spent_usd: float) -> Measurement:
        price, value = self.price_of(self.machines.kind_of(point)), raw.value
        about: dict[str, Any] = {**raw.about, "usd": spent_usd}
        if value > 0:
            if price is not None:
                about["usd_per_million"] = usd_per_million(value, price)
            value = objective_value(self._run.options.goal, value, price)
        return dataclasses.replace(raw, value=value, about=about)

    def _curve(
        self, point: Point, schedule: Schedule, pace: Pace, *, kept: Path | None
    ) -> LoadCurve:
        with self.reached(point) as reached:
            bodies = self._run.options.bodies
            if self._generator is None:
                self._generator = LoadGenerator(
                    reached.target, bodies, loop="closed", variables=reached.variables
                )
            else:
                self._generator.aim(reached.target, bodies, loop="closed")
            curve = measure(
                self._generator,
                schedule,
                pace,
                reached.asked,
                target_pid=reached.pid,
                attempts=ATTEMPTS,
                progress=lambda curve, load, step: self._run.progress.step(load, step),
            )
        if curve.ended == "interrupted":
            raise KeyboardInterrupt
        if kept is not None:
            curve.write(kept / CURVE)
        return curve


def limit_beside(
    steps: Sequence[LoadStep], stated_ms: float | None, *, busy: float = 0.0
) -> Objective:
    """Return the stated limit, or one that this computer can rank by; `steps` are of one caller.

    Raises LoadError if nothing was answered, or if a busy computer would decide the limit.
    """
    answered = [step for step in steps if step.latencies.count]
    alone = min(
        answered or steps, key=lambda step: step.latencies.compute_percentile_ms(Objective.percent)
    )
    if not alone.latencies.count:
        kinds = {**alone.errors, **({"timeouts": alone.timeouts} if alone.timeouts else {})}
        errors = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        raise LoadError(
            f"today's settings answered none of {alone.sent} requests ({errors or 'nothing was sent'}), so "
            "no limit can be set; try the request with servable serve and servable invoke first"
        )
    alone_ms = alone.latencies.compute_percentile_ms(Objective.percent)
    if stated_ms is not None and alone_ms <= NEAR * stated_ms:
        return Objective(most_ms=stated_ms)
    if busy > BUSY_SHARE:
        raise LoadError(
            f"other programs use {busy:.0%} of this computer's CPU cores, so a latency limit can't be "
            "measured; end them, or pass --p99-ms"
        )
    return Objective(most_ms=float(f"{SLOWER_THAN_ALONE * alone_ms:.2g}"))


def measured_of(
    curve: LoadCurve, at_knee: Knee | None, objective: Objective, name: str
) -> Measurement:
    """Return the knee's value as a measurement; `name`: of the curve, for the report."""
    about: dict[str, Any] = {"curve": name}
    if at_knee is None:
        lowest = curve.valid[0].latencies.compute_percentile_ms(objective.percent)
        why = f"over {objective.most_ms:g} ms: {format_number(lowest)} at the lowest load"
        return Measurement(value=0.0, failure=why, about=about)
    steps = [step for step in curve.valid if step.load <= at_knee.load.value] or [curve.valid[0]]
    step = steps[-1]
    about |= {
        "rps": dataclasses.asdict(at_knee.rps),
        "users": at_knee.load.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
    }
    return Measurement(value=at_knee.rps.value, about=about)


def lateness(curve: LoadCurve, at_knee: Knee | None) -> str | None:
    """Return why this curve cannot be compared: what may be its knee was measured late."""
    if not curve.valid:
        return curve.steps[0].refused
    highest = max(curve.steps, key=lambda step: step.load)
    if at_knee is None or at_knee.bounded:
        return None
    # Without its highest load it only seems to bear less than the others.
    return highest.refused


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)
    # TensorFlow's import and a model of some MB, on two cores.
    start_seconds = 5.0

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._archive = prepare_variant(run.loaded, variant=run.placement.name).archive
        self._asked = asked_of(
            "local",
            "this computer",
            run.options.body_names,
            environment=run.loaded.name,
            variant=run.placement.name,
            model_sha256=str(run.model),
        )

    def busy_share(self) -> float:
        # No container is started yet, so whatever is busy is another program.
        for _ in range(WAIT_SECONDS):
            busy: float = psutil.cpu_percent(interval=1.0) / 100
            if busy <= BUSY_SHARE:
                break
        return busy

    @contextmanager
    def reached(self, point: Point) -> Iterator[ReadyTarget]:
        machine = self.machines.of(point)
        served = prepare_variant(
            machine.at(point), variant=machine.placement.name, archive=self._archive
        )
        create_private_folder(self._run.folder)
        try:
            with serve_locally(served, port=0, log=self._run.folder / "containers.log") as process:
                yielding(process.pid, entirely=True)
                yield ReadyTarget(target=container(process.url), asked=self._asked, pid=process.pid)
        except LaunchError as error:
            raise NotServedError(str(error)) from None


# In the run's folder: what was spent, also by runs that were killed.
LEDGER = "dollars.json"
# The model is the live one's, wherever it lies.
LIVE_ARCHIVE = Path("live")


class TemporaryTrials(Trials):
    # An endpoint takes minutes to be made: some more seconds of it cost little.
    trial_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=20.0)
    curve_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=30.0)

    def __init__(self, run: Run) -> None:
        """Remove first what earlier runs left. Raises TemporaryError."""
        super().__init__(run)
        account, live = run.options.account, run.model
        assert account is not None  # the caller has looked
        assert isinstance(live, LiveVariant)  # comes with the account
        self._account, self._live = account, live
        # In SageMaker five to ten minutes.
        self.start_seconds = 5.0 if account.has_custom_endpoint else 420.0
        self._now = self._variables(run.loaded)
        self._endpoints = TemporaryEndpoints(
            account.client("sagemaker"),
            budget_usd=run.options.dollars,
            usd_per_hour=self.price_of,
            poll_seconds=0.1 if account.has_custom_endpoint else 5.0,
            ledger=Ledger(run.folder / LEDGER),
            told=run.progress.stage,
        )
        with explained(run.environment.endpoint.name):
            self._endpoints.sweep()

    @property
    def spent_usd(self) -> float:
        return self._endpoints.spent_usd

    def _objective(self, stated_ms: float | None, busy: float) -> Objective:
        """Return the file's limit, which holds where it is deployed; only without one invoke an endpoint."""
        if stated_ms is not None:
            return Objective(most_ms=stated_ms)
        return super()._objective(stated_ms, busy)

    def _variables(self, loaded: ValidFile) -> dict[str, str]:
        """Return container variables that the stack would deploy; nothing is packed for them."""
        name = self._run.placement.name
        return prepare_variant(loaded, variant=name, archive=LIVE_ARCHIVE).variables

    @contextmanager
    def reached(self, point: Point) -> Iterator[ReadyTarget]:
        run, kind = self._run, self.machines.kind_of(point)
        # What the live one has beside the settings stays: its model's digest, the user's own.
        kept = {key: text for key, text in self._live.variables.items() if key not in self._now}
        variables = {**kept, **self._variables(self.machines.of(point).at(point))}
        with explained(run.environment.endpoint.name):
            try:
                with self._endpoints.like(
                    self._live, instance_type=kind, variables=variables
                ) as temporary:
                    yield at_endpoint(
                        self._account,
                        temporary,
                        run.options.body_names,
                        name=run.loaded.name,
                        variant=run.placement.name,
                        instance_type=kind,
                        model_at=self._live.archive,
                    )
            except (NotInServiceError, LoadError, BotoCoreError, ClientError) as error:
                # Whatever it was that the budget's end looked like.
                self._within_budget()
                if isinstance(error, NotInServiceError):
                    raise NotServedError(str(error)) from None
                raise
        self._within_budget()

    def _within_budget(self) -> None:
        if self._endpoints.ended_by_budget:
            raise BudgetSpentError(
                f"the budget of {self._run.options.dollars:g} $ ended a measurement"
            ) from None
