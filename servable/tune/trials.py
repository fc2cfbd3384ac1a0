"""Trials: start an endpoint with different settings, load-test it briefly, and find its knee.

The endpoint is a local container, or in SageMaker a temporary copy of the deployed one.
"""

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter

from infra.parameters.loading import ValidFile
from model_packaging.beside import create_private_folder, write_atomically
from servable.load.load_test import Schedule, measure_curve
from servable.load.objective import Knee, Objective, compute_usd_per_million, find_knee
from servable.load.processes import LoadGenerator
from servable.measured.measurement import (
    CURVE,
    LoadCurve,
    LoadError,
    LoadStep,
    MeasuredTarget,
    Pace,
    build_container_target,
)
from servable.measured.precision import format_number
from servable.measured.targets import (
    ReadyTarget,
    find_usd_per_hour,
    lower_priority,
    prepare_endpoint,
)
from servable.measured.temporary import (
    BudgetSpentError,
    Ledger,
    LiveVariant,
    NotInServiceError,
    TemporaryEndpoints,
    translate_aws_errors,
)
from servable.project.provided import LaunchError
from servable.serve.serve import prepare_variant, serve_locally
from servable.tune.run import Run
from servable.tune.search.space import Measurement, Point

# Loads of one trial, and of a curve up to a hundred users, refined around the knee.
TRIAL_STEPS, CURVE_STEPS = 3, 8
# If one caller on this computer already sees this share of the file's limit, the limit can't rank settings;
# this multiple of what one caller sees can.
NEAR, SLOWER_THAN_ALONE = 0.5, 4.0
# One caller is measured so often; the quietest counts, because disturbances only slow it.
ALONE = 3
# Other programs may use this share of the CPU cores. Wait so many seconds for a busy computer.
BUSY_SHARE, WAIT_SECONDS = 0.15, 10
# A step whose requests were sent late is measured again so often, and then the whole trial.
ATTEMPTS, STARTED_AGAIN = 3, 2
# The knee of much better settings lies at a higher load: it is doubled so often.
FURTHER = 2


class NotServedError(Exception):
    """An endpoint doesn't start with these settings. `str()` contains the reason."""


_OBJECTIVE = TypeAdapter(Objective)


class Trials(ABC):
    """Measures points with one load generator for all of them. A context manager."""

    trial_pace: Pace
    """Short, since many are compared; the model of the search knows that they are noisy."""
    curve_pace: Pace
    start_seconds: float
    """Expected seconds until an endpoint serves."""

    def __init__(self, run: Run) -> None:
        self._run, self.machines = run, run.machines
        self._generator: LoadGenerator | None = None

    @abstractmethod
    def serve(self, point: Point) -> AbstractContextManager[ReadyTarget]:
        """Serve with these settings while the context lasts. Raises NotServedError."""

    def estimate_seconds(self) -> tuple[float, float]:
        """Return the expected seconds of a load curve and of a trial, before one is measured."""
        curve, trial = self.curve_pace, self.trial_pace
        return (
            self.start_seconds + CURVE_STEPS * (curve.warm_up_seconds + curve.least_seconds),
            self.start_seconds + TRIAL_STEPS * (trial.warm_up_seconds + trial.least_seconds),
        )

    def find_price(self, kind: str) -> float | None:
        """Return an instance type's US dollars per hour; None if no source states them."""
        return find_usd_per_hour(self._run.environment, kind)

    @property
    def spent_usd(self) -> float:
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._generator is not None:
            self._generator.close()

    def decide_objective(self) -> Objective:
        """Return the objective of every trial. A resumed run keeps it."""
        kept, most_ms = self._run.folder / "objective.json", self._run.options.most_ms
        busy = self.measure_busy_share()
        if busy > BUSY_SHARE:
            self._run.progress.print_line(
                f"other programs use {busy:.0%} of this computer's CPU cores, so trials will vary more; "
                "stop them for a reliable result"
            )
        if kept.exists():
            return _OBJECTIVE.validate_json(kept.read_bytes())
        if most_ms is not None:
            objective = Objective(most_ms=most_ms)
        else:
            self._run.progress.print_line("one caller alone, with today's settings")
            objective = self._choose_objective(self._run.environment.alarms.p99_latency_ms, busy)
        write_atomically(kept, _OBJECTIVE.dump_json(objective))
        return objective

    def measure_busy_share(self) -> float:
        """Return the share of the CPU cores that other programs use where trials are measured."""
        return 0.0

    def _choose_objective(self, stated_ms: float | None, busy: float) -> Objective:
        """Measure one caller alone, and return `choose_limit` of it."""
        schedule = Schedule(loop="closed", fixed=(1.0,) * ALONE)
        curve = self._measure_curve(
            self.machines.initial_points[0], schedule, self.trial_pace, kept=None
        )
        return choose_limit(curve.steps, stated_ms, busy=busy)

    def estimate_duration(self, curve: LoadCurve) -> float:
        """Return about how many seconds a curve took, with the start of its endpoint."""
        return self.start_seconds + sum(step.warm_up_seconds + step.seconds for step in curve.steps)

    def measure_today(self, objective: Objective) -> LoadCurve:
        """Return the load curve of today's settings, which is measured once.

        Raises LoadError if it has no knee because requests were sent late: what is late would be
        blamed on the settings or on the limit.
        """
        kept, space = self._run.folder / "today" / CURVE, self.machines.space
        curve = LoadCurve.read(kept) if kept.exists() else None
        if curve is None or _find_lateness(curve, objective):
            self._run.progress.print_line("the load curve of today's settings")
            point = space.build_point(space.find_nearest(self.machines.initial_points[0]))
            curve = self.measure_full_curve(point, objective, "today")
        if late := _find_lateness(curve, objective):
            raise LoadError(
                f"today's settings: {late}; run the same command again on an idle computer"
            )
        return curve

    def measure_full_curve(self, point: Point, objective: Objective, name: str) -> LoadCurve:
        """Measure the load curve up to saturation. Raises NotServedError, LoadError."""
        schedule = Schedule(loop="closed", objective=objective, finest=1.3)
        return self._measure_curve(point, schedule, self.curve_pace, kept=self._run.folder / name)

    def measure_trial(self, point: Point, objective: Objective, users: float) -> Measurement:
        """Measure loads around `users`, and beyond if needed. Raises LoadError."""
        about = users * self.machines.compute_vcpu_ratio(point)
        loads = tuple(dict.fromkeys(max(1.0, round(about * step)) for step in (0.5, 1.0, 2.0)))
        schedule = Schedule(loop="closed", fixed=loads, objective=objective, further=FURTHER)
        spent_usd = self.spent_usd
        for _ in range(STARTED_AGAIN):
            name = Path("trials") / f"{time.time_ns()}"
            try:
                curve = self._measure_curve(
                    point, schedule, self.trial_pace, kept=self._run.folder / name
                )
            except NotServedError as error:
                cost = {"usd": self.spent_usd - spent_usd}
                return Measurement(value=0.0, failure=str(error).splitlines()[0], about=cost)
            at_knee = find_knee(curve, objective)
            if (late := explain_lateness(curve, at_knee)) is None:
                measured = build_measurement(curve, at_knee, objective, str(name))
                return self._add_cost(measured, point, self.spent_usd - spent_usd)
        raise LoadError(f"repeatedly {late}; run the same command again on an idle computer")

    def _add_cost(self, raw: Measurement, point: Point, spent_usd: float) -> Measurement:
        price, value = self.find_price(self.machines.find_instance_type(point)), raw.value
        about: dict[str, Any] = {**raw.about, "usd": spent_usd}
        if value > 0 and price is not None:
            about["usd_per_million"] = compute_usd_per_million(value, price)
            if self._run.options.goal == "cost":
                value *= 3600 / price  # predictions per dollar
        return dataclasses.replace(raw, value=value, about=about)

    def _measure_curve(
        self, point: Point, schedule: Schedule, pace: Pace, *, kept: Path | None
    ) -> LoadCurve:
        with self.serve(point) as reached:
            bodies = self._run.options.bodies
            if self._generator is None:
                self._generator = LoadGenerator(
                    reached.target, bodies, loop="closed", variables=reached.variables
                )
            else:
                self._generator.set_target(reached.target, bodies, loop="closed")
            curve = measure_curve(
                self._generator,
                schedule,
                pace,
                dataclasses.replace(reached.asked, bodies=self._run.options.body_names),
                target_pid=reached.pid,
                attempts=ATTEMPTS,
                progress=lambda curve, load, step: self._run.progress.print_step(load, step),
            )
        if curve.ended == "interrupted":
            raise KeyboardInterrupt
        if kept is not None:
            curve.write(kept / CURVE)
        return curve


def choose_limit(
    steps: Sequence[LoadStep], stated_ms: float | None, *, busy: float = 0.0
) -> Objective:
    """Return the stated limit, or a limit by which a slow computer can rank settings.

    `steps`: of one caller. Raises LoadError without a response, or if a busy computer would decide.
    """
    answered = [step for step in steps if step.latencies.count]
    alone = min(
        answered or steps, key=lambda step: step.latencies.compute_percentile_ms(Objective.percent)
    )
    if not alone.latencies.count:
        kinds = alone.errors | ({"timeouts": alone.timeouts} if alone.timeouts else {})
        errors = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        raise LoadError(
            f"with today's settings, none of {alone.request_count} requests succeeded "
            f"({errors or 'nothing was sent'}), so "
            "no limit can be set; test the request with `servable serve` and `servable invoke` first"
        )
    alone_ms = alone.latencies.compute_percentile_ms(Objective.percent)
    if stated_ms is not None and alone_ms <= NEAR * stated_ms:
        return Objective(most_ms=stated_ms)
    if busy > BUSY_SHARE:
        raise LoadError(
            f"other programs use {busy:.0%} of this computer's CPU cores, so a latency limit can't be "
            "measured; stop them, or pass --p99-ms"
        )
    return Objective(most_ms=float(f"{SLOWER_THAN_ALONE * alone_ms:.2g}"))


def build_measurement(
    curve: LoadCurve, at_knee: Knee | None, objective: Objective, name: str
) -> Measurement:
    """Return the knee's value as a measurement. `name`: of the curve, for the report."""
    about: dict[str, Any] = {"curve": name}
    if at_knee is None:
        lowest = curve.valid_steps[0].latencies.compute_percentile_ms(objective.percent)
        why = f"over {objective.most_ms:g} ms: {format_number(lowest)} at the lowest load"
        return Measurement(value=0.0, failure=why, about=about)
    below = [step for step in curve.valid_steps if step.load <= at_knee.load.value]
    step = below[-1] if below else curve.valid_steps[0]
    about |= {
        "rps": dataclasses.asdict(at_knee.rps),
        "users": at_knee.load.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
    }
    return Measurement(value=at_knee.rps.value, about=about)


def explain_lateness(curve: LoadCurve, at_knee: Knee | None) -> str | None:
    """Return why the curve can't be compared, if requests were sent late at a step that may be its knee."""
    if not curve.valid_steps:
        return curve.steps[0].rejection
    if at_knee is None or at_knee.bounded:
        return None
    # Without its highest load it only seems to sustain less than the others.
    return max(curve.steps, key=lambda step: step.load).rejection


def _find_lateness(curve: LoadCurve, objective: Objective) -> str | None:
    """Return why a curve without a knee can't be used; None if it has a knee or no late steps."""
    if find_knee(curve, objective) is not None:
        return None
    return next((step.rejection for step in curve.steps if step.rejection), None)


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)
    # TensorFlow's import and a model of some MB, on two cores.
    start_seconds = 5.0

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._asked = MeasuredTarget(
            target="local",
            address="this computer",
            environment=run.loaded.name,
            variant=run.placement.name,
            model_sha256=str(run.model),
        )

    def measure_busy_share(self) -> float:
        # No container is started yet, so whatever is busy is another program.
        for _ in range(WAIT_SECONDS):
            busy: float = psutil.cpu_percent(interval=1.0) / 100
            if busy <= BUSY_SHARE:
                break
        return busy

    @contextmanager
    def serve(self, point: Point) -> Iterator[ReadyTarget]:
        machine = self.machines.find_machine(point)
        served = prepare_variant(
            machine.apply_point(point), variant=machine.placement.name, archive=self._run.archive
        )
        create_private_folder(self._run.folder)
        try:
            with serve_locally(served, port=0, log=self._run.folder / "containers.log") as process:
                lower_priority(process.pid, entirely=True)
                yield ReadyTarget(
                    target=build_container_target(process.url), asked=self._asked, pid=process.pid
                )
        except LaunchError as error:
            raise NotServedError(str(error)) from None


# In the run's folder: what all runs spent, those that were killed too.
LEDGER = "dollars.json"


class TemporaryTrials(Trials):
    # Creating an endpoint takes minutes, so a few more seconds cost little.
    trial_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=20.0)
    curve_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=30.0)

    def __init__(self, run: Run) -> None:
        """Delete what earlier runs left. Raises LoadError."""
        super().__init__(run)
        account, live = run.options.account, run.model
        assert account is not None  # the caller has checked
        assert isinstance(live, LiveVariant)  # comes with the account
        self._account, self._live = account, live
        # In SageMaker five to ten minutes.
        self.start_seconds = 5.0 if account.has_custom_endpoint else 420.0
        self._now = self._build_variables(run.loaded)
        self._endpoints = TemporaryEndpoints(
            account.client("sagemaker"),
            budget_usd=run.options.dollars,
            usd_per_hour=self.find_price,
            poll_seconds=0.1 if account.has_custom_endpoint else 5.0,
            ledger=Ledger(run.folder / LEDGER),
            told=run.progress.print_line,
        )
        with translate_aws_errors(run.environment.endpoint.name):
            self._endpoints.sweep()

    @property
    def spent_usd(self) -> float:
        return self._endpoints.spent_usd

    def _choose_objective(self, stated_ms: float | None, busy: float) -> Objective:
        # The copies run where the model is deployed, so the file's limit can rank settings.
        if stated_ms is not None:
            return Objective(most_ms=stated_ms)
        return super()._choose_objective(stated_ms, busy)

    def _build_variables(self, loaded: ValidFile) -> dict[str, str]:
        """Return the container variables that the stack would deploy, without packing an archive."""
        name = self._run.placement.name
        return prepare_variant(loaded, variant=name, archive=Path("live")).variables

    @contextmanager
    def serve(self, point: Point) -> Iterator[ReadyTarget]:
        run, kind = self._run, self.machines.find_instance_type(point)
        # The deployed variant's other variables stay: the model's digest, and the user's own.
        kept = {key: text for key, text in self._live.variables.items() if key not in self._now}
        variables = kept | self._build_variables(
            self.machines.find_machine(point).apply_point(point)
        )
        with translate_aws_errors(run.environment.endpoint.name):
            try:
                with self._endpoints.run_copy(
                    self._live, instance_type=kind, variables=variables
                ) as temporary:
                    yield prepare_endpoint(
                        self._account,
                        temporary,
                        name=run.loaded.name,
                        variant=run.placement.name,
                        instance_type=kind,
                        model_at=self._live.archive,
                    )
            except (NotInServiceError, LoadError, BotoCoreError, ClientError) as error:
                # The end of the budget can look like any of these errors.
                self._check_budget()
                if isinstance(error, NotInServiceError):
                    raise NotServedError(str(error)) from None
                raise
        self._check_budget()

    def _check_budget(self) -> None:
        if self._endpoints.ended_by_budget:
            raise BudgetSpentError(
                f"the budget of {self._run.options.dollars:g} $ was used up during a measurement"
            ) from None
