"""Trials: start an endpoint with different settings, load-test it briefly, and find its knee.

The endpoint is a local container, or in SageMaker a temporary copy of the deployed one.
"""

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import psutil
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter

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

# If one caller on this computer already sees this share of the file's limit, the limit can't rank settings;
# this multiple of what one caller sees can.
NEAR, SLOWER_THAN_ALONE = 0.5, 4.0
# The users of each step while one caller is measured. The quietest step counts: disturbances only slow it.
ALONE = (1.0, 1.0, 1.0)
# Other programs may use this share of the CPU cores. Wait so many seconds for a busy computer.
BUSY_SHARE, WAIT_SECONDS = 0.15, 10
# A step whose requests were sent late is measured again so often, and then the whole trial.
ATTEMPTS, STARTED_AGAIN = 3, 2
# The knee of much better settings lies at a higher load: it is doubled so often.
FURTHER = 2
# The errors of an endpoint that doesn't start with these settings.
NOT_SERVED = (LaunchError, NotInServiceError)

_OBJECTIVE = TypeAdapter(Objective)


class Trials(ExitStack):
    """Measures points with one load generator for all of them, which the context closes."""

    trial_pace: Pace
    """Short, since many are compared; the model of the search knows that they are noisy."""
    curve_pace: Pace
    start_seconds: float
    """Expected seconds until an endpoint serves."""
    ledger = Ledger()
    """The dollars that all runs of this search spent."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run, self.machines = run, run.machines
        self.find_price = partial(find_usd_per_hour, run.loaded.environment)
        self._generator: LoadGenerator | None = None

    @abstractmethod
    def serve(self, point: Point) -> AbstractContextManager[ReadyTarget]:
        """Serve with these settings while the context lasts. Raises one of NOT_SERVED."""

    @cached_property
    def objective(self) -> Objective:
        """Return the objective of every trial. A resumed run keeps it."""
        run, kept = self.run, self.run.folder / "objective.json"
        busy = self.measure_busy_share()
        if busy > BUSY_SHARE:
            run.progress.print_line(
                f"other programs use {busy:.0%} of this computer's CPU cores, so trials will vary more; "
                "stop them for a reliable result"
            )
        if kept.exists():
            return _OBJECTIVE.validate_json(kept.read_bytes())
        stated_ms = run.loaded.environment.alarms.p99_latency_ms
        # A copy runs where the model is deployed, so the file's limit can rank settings.
        most_ms = run.options.most_ms or (stated_ms if run.options.account else None)
        if most_ms is not None:
            objective = Objective(most_ms=most_ms)
        else:
            run.progress.print_line("one caller alone, with today's settings")
            point, schedule = self.machines.initial_points[0], Schedule(loop="closed", fixed=ALONE)
            curve = self._measure_curve(point, schedule, self.trial_pace, "alone")
            objective = choose_limit(curve.steps, stated_ms, busy=busy)
        write_atomically(kept, _OBJECTIVE.dump_json(objective))
        return objective

    def measure_busy_share(self) -> float:
        """Return the share of the CPU cores that other programs use where trials are measured."""
        return 0.0

    @cached_property
    def today(self) -> LoadCurve:
        """Return the load curve of today's settings, which is measured once.

        Raises LoadError if it has no knee because requests were sent late: what is late would be
        blamed on the settings or on the limit.
        """
        kept, space = self.run.folder / "today" / CURVE, self.machines.space
        curve = LoadCurve.read(kept) if kept.exists() else None
        if curve is None or self._find_lateness(curve):
            self.run.progress.print_line("the load curve of today's settings")
            point = space.build_point(space.find_nearest(self.machines.initial_points[0]))
            curve = self.measure_full_curve(point, "today")
        if late := self._find_lateness(curve):
            raise LoadError(
                f"today's settings: {late}; run the same command again on an idle computer"
            )
        return curve

    def _find_lateness(self, curve: LoadCurve) -> str | None:
        """Return why a curve without a knee can't be used; None if it has a knee or no late steps."""
        late = (step.rejection for step in curve.steps if step.rejection)
        return None if find_knee(curve, self.objective) else next(late, None)

    def measure_full_curve(self, point: Point, name: str) -> LoadCurve:
        """Measure the load curve up to saturation. Raises LoadError, or one of NOT_SERVED."""
        schedule = Schedule(loop="closed", objective=self.objective, finest=1.3)
        return self._measure_curve(point, schedule, self.curve_pace, name)

    def measure_trial(self, point: Point, users: float) -> Measurement:
        """Measure loads around `users`, and beyond if needed. Raises LoadError."""
        about = users * self.machines.compute_vcpu_ratio(point)
        loads = tuple(dict.fromkeys(max(1.0, round(about * step)) for step in (0.5, 1.0, 2.0)))
        schedule = Schedule(loop="closed", fixed=loads, objective=self.objective, further=FURTHER)
        before_usd = self.ledger.usd
        for _ in range(STARTED_AGAIN):
            name = f"trials/{time.time_ns()}"
            try:
                curve = self._measure_curve(point, schedule, self.trial_pace, name)
            except NOT_SERVED as error:
                measured = Measurement(value=0.0, failure=str(error).splitlines()[0])
                return self._add_cost(measured, point, self.ledger.usd - before_usd)
            at_knee = find_knee(curve, self.objective)
            if (late := explain_lateness(curve, at_knee)) is None:
                measured = self._build_measurement(curve, at_knee, name)
                return self._add_cost(measured, point, self.ledger.usd - before_usd)
        raise LoadError(f"repeatedly {late}; run the same command again on an idle computer")

    def _build_measurement(self, curve: LoadCurve, at_knee: Knee | None, name: str) -> Measurement:
        """Return the knee's value as a measurement. `name`: of the curve, for the report."""
        about: dict[str, Any] = {"curve": name}
        if at_knee is None:
            limit_ms, lowest = self.objective.most_ms, curve.valid_steps[0].latencies
            lowest_ms = format_number(lowest.compute_percentile_ms(self.objective.percent))
            why = f"over {limit_ms:g} ms: {lowest_ms} at the lowest load"
            return Measurement(value=0.0, failure=why, about=about)
        step = [step for step in curve.valid_steps if step.load <= at_knee.load.value][-1]
        about |= {
            "rps": dataclasses.asdict(at_knee.rps),
            "users": at_knee.load.value,
            "p50_ms": step.latencies.p50_ms,
            "p99_ms": step.latencies.p99_ms,
        }
        return Measurement(value=at_knee.rps.value, about=about)

    def _add_cost(self, raw: Measurement, point: Point, spent_usd: float) -> Measurement:
        price, value = self.find_price(self.machines.find_instance_type(point)), raw.value
        about: dict[str, Any] = {**raw.about, "usd": spent_usd}
        if value > 0 and price is not None:
            about["usd_per_million"] = compute_usd_per_million(value, price)
            if self.run.options.goal == "cost":
                value *= 3600 / price  # predictions per dollar
        return dataclasses.replace(raw, value=value, about=about)

    def _measure_curve(self, point: Point, schedule: Schedule, pace: Pace, name: str) -> LoadCurve:
        """Measure a load curve, and keep it under this name in the run's folder."""
        with self.serve(point) as reached:
            target, bodies = reached.target, self.run.options.bodies
            if self._generator is None:
                started = LoadGenerator(target, bodies, loop="closed", variables=reached.variables)
                self._generator = self.enter_context(started)
            else:
                self._generator.set_target(target, bodies, loop="closed")
            curve = measure_curve(
                self._generator,
                schedule,
                pace,
                dataclasses.replace(reached.asked, bodies=self.run.options.body_names),
                target_pid=reached.pid,
                attempts=ATTEMPTS,
                progress=lambda curve, load, step: self.run.progress.print_step(load, step),
            )
        if curve.ended == "interrupted":
            raise KeyboardInterrupt
        curve.write(self.run.folder / name / CURVE)
        return curve


def choose_limit(
    steps: Sequence[LoadStep], stated_ms: float | None, *, busy: float = 0.0
) -> Objective:
    """Return the stated limit, or a limit by which a slow computer can rank settings.

    `steps`: of one caller. Raises LoadError without a response, or if a busy computer would decide.
    """
    answered = [step for step in steps if step.latencies.count]
    if not answered:
        kinds = steps[0].errors | ({"timeouts": steps[0].timeouts} if steps[0].timeouts else {})
        errors = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        raise LoadError(
            f"with today's settings, none of {steps[0].request_count} requests succeeded "
            f"({errors or 'nothing was sent'}), so "
            "no limit can be set; test the request with `servable serve` and `servable invoke` first"
        )
    alone_ms = min(step.latencies.compute_percentile_ms(Objective.percent) for step in answered)
    if stated_ms is not None and alone_ms <= NEAR * stated_ms:
        return Objective(most_ms=stated_ms)
    if busy > BUSY_SHARE:
        raise LoadError(
            f"other programs use {busy:.0%} of this computer's CPU cores, so a latency limit can't be "
            "measured; stop them, or pass --p99-ms"
        )
    return Objective(most_ms=float(f"{SLOWER_THAN_ALONE * alone_ms:.2g}"))


def explain_lateness(curve: LoadCurve, at_knee: Knee | None) -> str | None:
    """Return why the curve can't be compared, if requests were sent late at a step that may be its knee."""
    if not curve.valid_steps:
        return curve.steps[0].rejection
    if at_knee is None or at_knee.bounded:
        return None
    # Without its highest load it only seems to sustain less than the others.
    return max(curve.steps, key=lambda step: step.load).rejection


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)
    # TensorFlow's import and a model of some MB, on two cores.
    start_seconds = 5.0

    def measure_busy_share(self) -> float:
        # No container is started yet, so whatever is busy is another program.
        for _ in range(WAIT_SECONDS):
            busy: float = psutil.cpu_percent(interval=1.0) / 100
            if busy <= BUSY_SHARE:
                break
        return busy

    @contextmanager
    def serve(self, point: Point) -> Iterator[ReadyTarget]:
        run, machine = self.run, self.machines.find_machine(point)
        served = prepare_variant(
            machine.apply_point(point), variant=run.placement.name, archive=run.archive
        )
        asked = MeasuredTarget(
            target="local",
            address="this computer",
            environment=run.loaded.name,
            variant=run.placement.name,
            model_sha256=str(run.model),
        )
        create_private_folder(run.folder)
        with serve_locally(served, port=0, log=run.folder / "containers.log") as process:
            lower_priority(process.pid, entirely=True)
            target = build_container_target(process.url)
            yield ReadyTarget(target=target, asked=asked, pid=process.pid)


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
        # The variables that the stack would deploy, without packing an archive.
        self._prepare = partial(prepare_variant, variant=run.placement.name, archive=Path("live"))
        now = self._prepare(run.loaded).variables
        # The deployed variant's other variables stay: the model's digest, and the user's own.
        self._kept = {key: text for key, text in live.variables.items() if key not in now}
        self.ledger = Ledger(run.folder / LEDGER)
        self._endpoints = TemporaryEndpoints(
            account.client("sagemaker"),
            budget_usd=run.options.dollars,
            usd_per_hour=self.find_price,
            poll_seconds=0.1 if account.has_custom_endpoint else 5.0,
            ledger=self.ledger,
            told=run.progress.print_line,
        )
        with translate_aws_errors(run.loaded.environment.endpoint.name):
            self._endpoints.sweep()

    @contextmanager
    def serve(self, point: Point) -> Iterator[ReadyTarget]:
        run, kind = self.run, self.machines.find_instance_type(point)
        changed = self.machines.find_machine(point).apply_point(point)
        variables = self._kept | self._prepare(changed).variables
        with translate_aws_errors(run.loaded.environment.endpoint.name):
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
            except (LoadError, BotoCoreError, ClientError):
                # The end of the budget can look like any of these errors.
                if not self._endpoints.ended_by_budget:
                    raise
        if self._endpoints.ended_by_budget:
            raise BudgetSpentError(
                f"the budget of {run.options.dollars:g} $ was used up during a measurement"
            )
