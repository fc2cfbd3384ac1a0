"""A load test of `servable load`: what it reaches, its steps, and what it prints."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from infra.parameters.loading import ValidFile
from model_packaging.private_folder import private_folder
from model_packaging.refusal import PackagingError
from servable.console.lines import SILENT_SECONDS, EscapingConsole
from servable.load.bodies import BodyError, bodies_of
from servable.load.gate import expected, verdict
from servable.load.load_generator import (
    LOCALHOST,
    GeneratorProcesses,
    LoadError,
    LoadGenerator,
)
from servable.load.load_test import Progress, measure
from servable.load.measurement import CURVE, LoadCurve
from servable.load.objective import Objective
from servable.load.options import LoadOptions, is_url
from servable.load.output import say, table
from servable.load.pace import Pace
from servable.load.page import write_load_report
from servable.load.reached import reached_by, run_folder
from servable.load.schedule import Schedule
from servable.load.temporary.live import TemporaryError
from servable.measured.precision import readable
from servable.project.environments import environment_with_endpoint
from servable.project.folder import standing_in
from servable.project.provided import LaunchError
from servable.verdict import VERDICTS

# Doublings to some hundred users, and the loads between the last two.
STEPS_USUAL = "8 to 14"


def run_load_test(what: str, folder: str, options: LoadOptions) -> int:
    """Measure an environment or an address, and return the exit code."""
    try:
        with ExitStack() as held:
            return _measured(held, what, folder, options)
    except (LoadError, LaunchError, PackagingError, BodyError, TemporaryError) as error:
        click.echo(f"servable load: {error}", err=True)
        return 2


def _measured(held: ExitStack, what: str, folder: str, options: LoadOptions) -> int:
    loaded = None if is_url(what) else environment_with_endpoint(what, folder, options.sets)[0]
    if options.gate and loaded is not None:
        options = expected(loaded.environment, options)
    bodies, names = bodies_of(
        options.files,
        content_type=options.content_type,
        loaded=loaded,
        variant=options.variant,
    )
    output = options.output or run_folder(loaded.root if loaded else standing_in(), what)
    private_folder(output)
    reached = held.enter_context(reached_by(what, loaded, names, output, options))
    schedule = _schedule(loaded, options)
    pace = Pace(
        warm_up_seconds=options.warm_up_seconds,
        least_seconds=min(options.least_seconds, options.step_seconds),
        most_seconds=options.step_seconds,
        arrivals=options.arrivals,
    )
    generator = held.enter_context(
        LoadGenerator(
            reached.target_within(options.timeout_seconds),
            bodies,
            loop=schedule.loop,
            processes=GeneratorProcesses(
                here=options.processes, elsewhere=options.workers, listen=options.listen
            ),
            variables=reached.variables,
            joined_at=_joined_at if options.workers else lambda host, port: None,
        )
    )
    click.echo(_announced(schedule, pace), err=True)
    with _live_table() as progress:
        curve = measure(
            generator,
            schedule,
            pace,
            reached.asked,
            target_pid=reached.pid,
            kept=lambda curve: curve.write(output / CURVE),
            progress=progress,
        )
    return _ended(curve, schedule.objective, output, options)


@contextmanager
def _live_table() -> Iterator[Progress]:
    """Show the measurements so far on a terminal; elsewhere print a line when a step takes long."""
    console = EscapingConsole(stderr=True)
    if not console.is_terminal:
        yield _lines_every(SILENT_SECONDS)
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda curve, load, found: live.update(table(curve, (load, found)), refresh=True)


def _lines_every(seconds: float) -> Progress:
    said_at = time.monotonic()

    def progress(curve: LoadCurve, load: float, known: dict[str, Any]) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > seconds:
            said_at = time.monotonic()
            unit = "users" if curve.loop == "closed" else "requests/s sent"
            rps, done = readable(known["rps"]), len(curve.steps)
            steps = f"{done} step{'s' if done != 1 else ''} done"
            click.echo(f"{steps}; at {readable(load)} {unit}: {rps} answered/s", err=True)

    return progress


def _announced(schedule: Schedule, pace: Pace) -> str:
    """Describe the planned steps and their duration."""
    least, most = (
        pace.warm_up_seconds + seconds for seconds in (pace.least_seconds, pace.most_seconds)
    )
    each = f"{least:g} s each" if least == most else f"{least:g} to {most:g} s each"
    if schedule.fixed:
        count = len(schedule.fixed)
        return f"{count} load{'s' if count != 1 else ''}, {each}: at most {count * most / 60:.1f} minutes"
    what = "users" if schedule.loop == "closed" else "requests/s"
    return (
        f"{schedule.first:g}, {schedule.first * schedule.growth:g} … {what} until more bring no more "
        f"throughput, then loads around the knee: usually {STEPS_USUAL} steps, {each}; "
        "Ctrl-C keeps what was measured"
    )


def _ended(
    curve: LoadCurve, objective: Objective | None, output: Path, options: LoadOptions
) -> int:
    """Print the result, write the report page, and return the exit code."""
    gate = verdict(curve, objective) if options.gate and objective else None
    failed = len(curve.valid) < len(curve.steps) or curve.ended == "failing"
    code = int(failed) if gate is None else gate.exit_code
    # What a measurement that was ended would have shown is not known.
    told = "cannot be told" if curve.ended == "interrupted" else VERDICTS[code]
    say(
        curve,
        objective,
        output,
        as_json=options.as_json,
        verdict=told,
        gate=gate.as_object() if gate else None,
    )
    if (report := write_load_report(output, curve, objective)) is not None:
        click.echo(f"{report}: report with pictures", err=True)
    if curve.ended == "interrupted":
        return 130
    return code


def _schedule(loaded: ValidFile | None, options: LoadOptions) -> Schedule:
    p99_ms = options.p99_ms
    if p99_ms is None and loaded is not None:
        p99_ms = loaded.environment.alarms.p99_latency_ms
    opened = bool(options.rates or options.opened)
    return Schedule(
        loop="open" if opened else "closed",
        first=10.0 if opened else 1.0,
        most=options.most,
        objective=Objective(most_ms=p99_ms) if p99_ms else None,
        fixed=options.rates or options.users or (),
    )


def _joined_at(host: str, port: int) -> None:
    click.echo(f"waiting: servable load --join {host}:{port}", err=True)
    if host == LOCALHOST:
        click.echo("only this computer reaches it; for others, --listen ADDRESS:PORT", err=True)
