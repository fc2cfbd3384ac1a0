"""Run the load test of `servable load`, and print its steps and its result as text or JSON."""

import datetime
import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from infra.parameters.loading import ValidFile
from model_packaging.beside import create_private_folder
from model_packaging.refusal import PackagingError
from servable.console.lines import EscapingConsole, show_progress_line
from servable.load.bodies import load_bodies
from servable.load.gate import evaluate_gate, fill_in_traffic
from servable.load.load_test import Schedule, measure_curve
from servable.load.objective import Knee, Objective, find_knee, find_saturation
from servable.load.options import LoadOptions
from servable.load.page import FROM_SENDING, describe_knee, write_load_report
from servable.load.processes import LOCALHOST, LoadGenerator
from servable.measured.measurement import CURVE, Body, LoadCurve, LoadError, Pace
from servable.measured.options import is_url
from servable.measured.precision import format_number
from servable.measured.targets import prepare_target
from servable.project.environments import Project
from servable.project.folder import find_project_folder
from servable.project.provided import LaunchError
from servable.verdict import EXIT_CODES, Verdict

RUNS = Path(".servable") / "load"


def run_load_test(what: str, folder: str, options: LoadOptions) -> int:
    """Run a load test of an environment or an address, and return the exit code."""
    try:
        with ExitStack() as held:
            return _measure_target(held, what, folder, options)
    except (LoadError, LaunchError, PackagingError) as error:
        click.echo(f"servable load: {error}", err=True)
        return 2


def _measure_target(held: ExitStack, what: str, folder: str, options: LoadOptions) -> int:
    loaded = None if is_url(what) else Project(folder, options.sets).load_endpoint(what)
    if options.gate and loaded is not None:
        options = fill_in_traffic(loaded.environment, options)
    bodies: list[Body] = []
    if options.locustfile:
        names: tuple[str, ...] = (f"locustfile {options.locustfile.name}",)
    else:
        bodies, names = load_bodies(
            options.files, content_type=options.content_type, loaded=loaded, variant=options.variant
        )
    root = loaded.root if loaded else find_project_folder()
    now, name = datetime.datetime.now(datetime.UTC), re.sub(r"[^\w.-]", "-", what).strip("-")[:60]
    output = options.output or root / RUNS / f"{name}-{now:%Y%m%d-%H%M%S}"
    create_private_folder(output)
    reached = held.enter_context(prepare_target(what, loaded, output, options, whole=options.gate))
    schedule = _build_schedule(loaded, options)
    pace = Pace(
        warm_up_seconds=options.warm_up_seconds,
        least_seconds=min(options.least_seconds, options.step_seconds),
        most_seconds=options.step_seconds,
        arrivals=options.arrivals,
    )
    generator = held.enter_context(
        LoadGenerator(
            replace(reached.target, timeout_seconds=options.timeout_seconds),
            bodies,
            loop=schedule.loop,
            processes=options.processes,
            listen=options.listen,
            locustfile=options.locustfile,
            variables=reached.variables,
            on_listen=_print_address,
        )
    )
    click.echo(_describe_plan(schedule, pace), err=True)
    with show_progress_line() as show:
        curve = measure_curve(
            generator,
            schedule,
            pace,
            replace(reached.asked, bodies=names),
            target_pid=reached.pid,
            kept=lambda curve: curve.write(output / CURVE),
            progress=lambda curve, load, known: show(
                lambda: (
                    f"step {len(curve.steps) + 1}, {format_number(load)} {curve.unit}: "
                    f"{format_number(known['rps'])} responses/s"
                )
            ),
        )
    return report_result(curve, schedule.objective, output, options)


def _build_schedule(loaded: ValidFile | None, options: LoadOptions) -> Schedule:
    stated = None if loaded is None else loaded.environment.alarms.p99_latency_ms
    p99_ms = options.p99_ms or stated
    opened = bool(options.rates or options.opened)
    return Schedule(
        loop="open" if opened else "closed",
        first=10.0 if opened else 1.0,
        most=options.most,
        objective=Objective(most_ms=p99_ms) if p99_ms else None,
        fixed=options.rates or options.users or (),
    )


def _print_address(host: str, port: int) -> None:
    line = f"waiting: servable load --join {host}:{port}"
    if host == LOCALHOST:
        line += "\nonly this computer can join; for others, pass its address to --listen"
    click.echo(line, err=True)


def _describe_plan(schedule: Schedule, pace: Pace) -> str:
    """Describe the planned steps and their duration."""
    least, most = (
        pace.warm_up_seconds + seconds for seconds in (pace.least_seconds, pace.most_seconds)
    )
    each = f"{least:g} s each" if least == most else f"{least:g} to {most:g} s each"
    if count := len(schedule.fixed):
        return f"steps: {count}, {each}: at most {count * most / 60:.1f} minutes"
    return (
        f"steps: usually 8 to 14, {each}: rising loads until throughput no longer grows, then loads "
        "around the knee; Ctrl-C ends the test and keeps the complete steps"
    )


def report_result(
    curve: LoadCurve, objective: Objective | None, output: Path, options: LoadOptions
) -> int:
    """Print the result as text or JSON, write the report page, and return the exit code."""
    gate = evaluate_gate(curve, objective) if options.gate and objective else None
    failed = len(curve.valid_steps) < len(curve.steps) or curve.ended == "failing"
    verdict: Verdict = gate.verdict if gate else "does not hold" if failed else "holds"
    interrupted = curve.ended == "interrupted"
    knee = find_knee(curve, objective) if objective else None
    if options.as_json:
        shown = "cannot be told" if interrupted else verdict
        result = _build_result_object(curve, knee)
        rest = {"folder": str(output), "gate": gate and gate.as_object()}
        click.echo(json.dumps({"verdict": shown, **result, **rest}))
    else:
        console = EscapingConsole()
        # A file has no width; eleven columns need this one.
        console.width = console.width if console.is_terminal else 120
        console.print(_build_step_table(curve))
        lines = [*_format_result_lines(curve, objective, knee), *(gate.lines if gate else ())]
        if curve.steps:
            lines.append(f"{output / CURVE}: every step with its latency distribution")
        click.echo("\n".join(lines), nl=bool(lines))
    if (report := write_load_report(output, curve, knee, gate)) is not None:
        click.echo(f"{report}: report with charts", err=True)
    return 130 if interrupted else EXIT_CODES[verdict]


def _build_result_object(curve: LoadCurve, knee: Knee | None) -> dict[str, Any]:
    result: dict[str, Any] = curve.as_object()
    for step, shown in zip(curve.steps, result["steps"], strict=True):
        for percent in (50, 95, 99):
            milliseconds = step.latencies.compute_percentile_ms(percent)
            shown[f"p{percent}_ms"] = milliseconds if step.latencies.count else None
        shown |= {
            "known": step.has_known_throughput,
            "refused": step.rejection,
            "failed": step.failure_count,
        }
        del shown["latencies"], shown["send_lags"]
    for name, point in (("knee", knee), ("saturation", find_saturation(curve))):
        result[name] = point and {key: asdict(point)[key] for key in ("load", "rps", "bounded")}
    return result | {"relative": curve.asked.is_relative}


COLUMNS = ("requests/s", "within", "p50 ms", "p95 ms", "p99 ms", "failed", "late ms", "generator")


def _build_step_table(curve: LoadCurve) -> Table:
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    for column in ("users" if curve.loop == "closed" else "sent/s", *COLUMNS):
        shown.add_column(column, justify="right")
    shown.add_column("")
    for step in curve.steps:
        latencies, rps = step.latencies, step.throughput_rps
        unsure = "" if step.has_known_throughput else "not known within 5 %"
        shown.add_row(
            format_number(step.load),
            f"{rps.value:,.1f}",
            f"{rps.half_width_share:.0%}" if rps.value else "",
            *map(_format_ms, (latencies.p50_ms, latencies.p95_ms, latencies.p99_ms)),
            f"{step.failed_share:.1%}" if step.failure_count else "0",
            _format_ms(step.send_lags.p99_ms),
            f"{step.generator_cpu_share:.0%}",
            "excluded: sent late" if step.rejection else unsure,
        )
    return shown


def _format_ms(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _format_result_lines(
    curve: LoadCurve, objective: Objective | None, knee: Knee | None
) -> Iterator[str]:
    unit = curve.unit
    if saturation := find_saturation(curve):
        least, why = (
            ("", "") if saturation.bounded else ("at least ", "; the load wasn't raised further")
        )
        yield f"maximum: {least}{saturation.rps} requests/s, from {saturation.load} {unit}{why}"
    if objective and curve.valid_steps:
        found = describe_knee(curve, knee) if knee else "exceeded even at the lowest load"
        yield f"{objective}: {found}"
    failed: Counter[str] = Counter()
    responses: dict[str, str] = {}
    for step in curve.steps:
        failed.update({**step.errors, "timeout": step.timeouts})
        responses |= step.first_answers
    for kind, count in sorted((+failed).items()):
        yield f"failed: {count} x {kind}"
        if kind in responses:
            # One line; curve.json contains the rest.
            yield f"  for example: {textwrap.shorten(responses[kind], 400, placeholder=' …')}"
    for step in curve.steps:
        if step.rejection:
            yield f"excluded, {step.load:g} {unit}: {step.rejection}"
    if not all(step.from_due for step in curve.steps):
        yield FROM_SENDING
    if curve.asked.is_relative and curve.valid_steps:
        yield "measured on this computer: compare settings with these numbers, not AWS instances"
    if curve.ended == "interrupted":
        yield "interrupted; the complete steps are kept"
