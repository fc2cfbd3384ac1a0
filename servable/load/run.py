"""Run the load test of `servable load`, and print its steps and its result as text or JSON."""

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
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
from servable.load.bodies import BodyError, load_bodies
from servable.load.gate import evaluate_gate, fill_in_traffic
from servable.load.load_generator import LOCALHOST, LoadError, LoadGenerator
from servable.load.load_target import Body, Pace
from servable.load.load_test import Schedule, measure_curve
from servable.load.measurement import CURVE, LoadCurve, LoadStep
from servable.load.objective import Knee, Objective, Saturation, find_knee, find_saturation
from servable.load.options import LoadOptions, is_url
from servable.load.page import FROM_SENDING, write_load_report
from servable.load.reached import choose_run_folder, prepare_target
from servable.load.temporary.endpoints import TemporaryError
from servable.measured.precision import format_number
from servable.project.environments import Project
from servable.project.folder import find_project_folder
from servable.project.provided import LaunchError
from servable.verdict import VERDICTS, Verdict

# Doublings to some hundred users, and the loads between the last two.
STEPS_USUAL = "8 to 14"


def run_load_test(what: str, folder: str, options: LoadOptions) -> int:
    """Run a load test of an environment or an address, and return the exit code."""
    try:
        with ExitStack() as held:
            return _measure_target(held, what, folder, options)
    except (LoadError, LaunchError, PackagingError, BodyError, TemporaryError) as error:
        click.echo(f"servable load: {error}", err=True)
        return 2


def _measure_target(held: ExitStack, what: str, folder: str, options: LoadOptions) -> int:
    loaded = None if is_url(what) else Project(folder, options.sets).load_endpoint(what)
    if options.gate and loaded is not None:
        options = fill_in_traffic(loaded.environment, options)
    if options.locustfile:
        bodies: list[Body] = []
        names = [f"locustfile {options.locustfile.name}"]
    else:
        bodies, names = load_bodies(
            options.files, content_type=options.content_type, loaded=loaded, variant=options.variant
        )
    output = options.output or choose_run_folder(
        loaded.root if loaded else find_project_folder(), what
    )
    create_private_folder(output)
    reached = held.enter_context(prepare_target(what, loaded, names, output, options))
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
            on_listen=_print_address if options.listen else lambda host, port: None,
        )
    )
    click.echo(_describe_plan(schedule, pace), err=True)
    with show_progress_line() as show:
        curve = measure_curve(
            generator,
            schedule,
            pace,
            reached.asked,
            target_pid=reached.pid,
            kept=lambda curve: curve.write(output / CURVE),
            progress=lambda *step: show(lambda: _describe_progress(*step)),
        )
    return _report_result(curve, schedule.objective, output, options)


def _describe_progress(curve: LoadCurve, load: float, known: dict[str, Any]) -> str:
    unit = "users" if curve.loop == "closed" else "requests/s sent"
    rps, done = format_number(known["rps"]), len(curve.steps)
    steps = f"{done} step{'s' if done != 1 else ''} done"
    return f"{steps}; at {format_number(load)} {unit}: {rps} answered/s"


def _describe_plan(schedule: Schedule, pace: Pace) -> str:
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
        "Ctrl-C keeps the complete steps"
    )


def _report_result(
    curve: LoadCurve, objective: Objective | None, output: Path, options: LoadOptions
) -> int:
    """Print the result, write the report page, and return the exit code."""
    gate = evaluate_gate(curve, objective) if options.gate and objective else None
    failed = len(curve.valid_steps) < len(curve.steps) or curve.ended == "failing"
    code = int(failed) if gate is None else gate.exit_code
    # What a measurement that was ended would have shown is not known.
    told = "cannot be told" if curve.ended == "interrupted" else VERDICTS[code]
    print_result(
        curve,
        objective,
        output,
        as_json=options.as_json,
        verdict=told,
        gate=gate.as_object() if gate else None,
    )
    if (report := write_load_report(output, curve, objective)) is not None:
        click.echo(f"{report}: report with charts", err=True)
    if curve.ended == "interrupted":
        return 130
    return code


def _build_schedule(loaded: ValidFile | None, options: LoadOptions) -> Schedule:
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


def _print_address(host: str, port: int) -> None:
    click.echo(f"waiting: servable load --join {host}:{port}", err=True)
    if host == LOCALHOST:
        click.echo("only this computer can join; for others, use its address", err=True)


# Sentence, allowed values and remedy of one problem; the rest stands in the curve's file.
MOST_ANSWER_CHARACTERS = 400
# Where SageMaker, TensorFlow Serving, Falcon (gunicorn's side of the container) say what is wrong.
MESSAGES = ("OriginalMessage", "error", "description")
COLUMNS = ("requests/s", "within", "p50 ms", "p95 ms", "p99 ms", "failed", "late ms", "generator")


def build_step_table(curve: LoadCurve) -> Table:
    """Return the table of a curve's steps."""
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    for column in ("users" if curve.loop == "closed" else "sent/s", *COLUMNS):
        shown.add_column(column, justify="right")
    shown.add_column("")
    for step in curve.steps:
        unsure = "" if step.has_known_throughput else "not known within 5 %"
        shown.add_row(*_format_row(step), "refused: sent late" if step.rejection else unsure)
    return shown


def _format_row(step: LoadStep) -> Sequence[str]:
    latencies = step.latencies
    return (
        format_number(step.load),
        f"{step.throughput_rps.value:,.1f}",
        f"{step.throughput_rps.half_width_share:.0%}" if step.throughput_rps.value else "",
        *(
            _format_ms(percentile)
            for percentile in (latencies.p50_ms, latencies.p95_ms, latencies.p99_ms)
        ),
        f"{step.failed_share:.1%}" if step.failure_count else "0",
        _format_ms(step.send_lags.p99_ms),
        f"{step.generator_cpu_share:.0%}",
    )


def _shorten_error(answer: str) -> str:
    """Return the message in an error's JSON, or the text itself, shortened to one line."""
    try:
        told = json.loads(answer)
    except ValueError:
        told = None
    if isinstance(told, dict):
        for key in MESSAGES:
            if isinstance(told.get(key), str):
                return _shorten_error(told[key])
    return textwrap.shorten(answer, MOST_ANSWER_CHARACTERS, placeholder=" …")


def _format_ms(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def print_result(
    curve: LoadCurve,
    objective: Objective | None,
    output: Path,
    *,
    as_json: bool,
    verdict: Verdict,
    gate: dict[str, Any] | None = None,
) -> None:
    """Print the result as text or as JSON.

    `verdict`: the command's verdict, for JSON. `gate`: the gate's verdict and a line for each
    rate; None without --gate.
    """
    at = find_knee(curve, objective) if objective else None
    full = find_saturation(curve)
    if as_json:
        click.echo(
            json.dumps(
                {"verdict": verdict, **_build_result_object(curve, at, full, output), "gate": gate}
            )
        )
        return
    console = EscapingConsole()
    # A file has no width of its own; eleven columns need this one.
    console.width = console.width if console.is_terminal else 120
    console.print(build_step_table(curve))
    for line in [
        *_format_result_lines(curve, objective, at, full),
        *(gate["lines"] if gate else []),
    ]:
        click.echo(line)
    if curve.steps:
        click.echo(f"{output / CURVE}: every step with its latency distribution")


def _format_result_lines(
    curve: LoadCurve, objective: Objective | None, at: Knee | None, full: Saturation | None
) -> list[str]:
    unit = "users" if curve.loop == "closed" else "requests/s"
    lines = []
    if full:
        least = "" if full.bounded else "at least, the load was not raised further: "
        lines.append(f"most: {least}{full.rps} requests/s, from {full.load} {unit}")
    if objective and at:
        least = "" if at.bounded else "at least, no step broke it: "
        lines.append(
            f"p{objective.percent:g} within {objective.most_ms:g} ms: {least}"
            f"{at.rps} requests/s, at {at.load} {unit}"
        )
    elif objective and curve.valid_steps:
        lines.append(
            f"p{objective.percent:g} within {objective.most_ms:g} ms: missed by the first step already"
        )
    failed: Counter[str] = Counter()
    for step in curve.steps:
        failed.update({**step.errors, "timeout": step.timeouts})
    answers = {kind: text for step in curve.steps for kind, text in step.first_answers.items()}
    for kind, count in sorted((+failed).items()):
        lines.append(f"failed: {count} x {kind}")
        if kind in answers:
            lines.append(f"  such as: {_shorten_error(answers[kind])}")
    lines += [
        f"refused, {step.load:g} {unit}: {step.rejection}" for step in curve.steps if step.rejection
    ]
    if not all(step.from_due for step in curve.steps):
        lines.append(FROM_SENDING)
    if curve.asked.is_relative and curve.valid_steps:
        lines.append(
            "measured on this computer: comparable between settings, not with an AWS instance"
        )
    if curve.ended == "interrupted":
        lines.append("interrupted; the complete steps are kept")
    return lines


def _build_result_object(
    curve: LoadCurve, at: Knee | None, full: Saturation | None, output: Path
) -> dict[str, Any]:
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
    for name, point in (("knee", at), ("saturation", full)):
        result[name] = point and {key: asdict(point)[key] for key in ("load", "rps", "bounded")}
    return result | {"relative": curve.asked.is_relative, "folder": str(output)}
