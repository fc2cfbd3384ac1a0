"""The output of a load test: the live table, and the result as text or JSON."""

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from servable.console.lines import EscapingConsole
from servable.load.knee import Knee, Saturation, knee, saturation
from servable.load.measurement import CURVE, LoadCurve, LoadStep
from servable.load.objective import Objective
from servable.measured.precision import readable
from servable.verdict import Verdict

# Sentence, allowed values and remedy of one problem; the rest stands in the curve's file.
MOST_ANSWER_CHARACTERS = 400
# Where SageMaker, TensorFlow Serving, Falcon (gunicorn's side of the container) say what is wrong.
MESSAGES = ("OriginalMessage", "error", "description")
COLUMNS = ("requests/s", "within", "p50 ms", "p95 ms", "p99 ms", "failed", "late ms", "generator")


def table(curve: LoadCurve, now: tuple[float, dict[str, Any]] | None = None) -> Table:
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    for column in ("users" if curve.loop == "closed" else "sent/s", *COLUMNS):
        shown.add_column(column, justify="right")
    shown.add_column("")
    for step in curve.steps:
        unsure = "" if step.known else "not known within 5 %"
        shown.add_row(*_row(step), "refused: sent late" if step.refused else unsure)
    if now:
        load, so_far = now
        shown.add_row(readable(load), *_so_far(so_far), style="dim")
    return shown


def _row(step: LoadStep) -> Sequence[str]:
    latencies = step.latencies
    return (
        readable(step.load),
        f"{step.throughput_rps.value:,.1f}",
        f"{step.throughput_rps.half_width_share:.0%}" if step.throughput_rps.value else "",
        *(_ms(percentile) for percentile in (latencies.p50_ms, latencies.p95_ms, latencies.p99_ms)),
        f"{step.failed_share:.1%}" if step.failed else "0",
        _ms(step.send_lag_p99_ms),
        f"{step.generator_cpu_share:.0%}",
    )


def _so_far(so_far: dict[str, Any]) -> Sequence[str]:
    within, p50, p99 = so_far["known_within"], so_far["p50_ms"], so_far["p99_ms"]
    return (
        f"{so_far['rps']:,.1f}",
        "" if within is None else f"{min(within, 9.99):.0%}",
        "" if p50 is None else _ms(p50),
        "",
        "" if p99 is None else _ms(p99),
        str(so_far["failed"]),
        "",
        "",
        f"{so_far['seconds']:.0f} s" if so_far["seconds"] else "warming up",
    )


def _on_a_line(answer: str) -> str:
    """Return the message in an error's JSON, or the text itself, shortened."""
    try:
        told = json.loads(answer)
    except ValueError:
        told = None
    if isinstance(told, dict):
        for key in MESSAGES:
            if isinstance(told.get(key), str):
                return _on_a_line(told[key])
    return textwrap.shorten(answer, MOST_ANSWER_CHARACTERS, placeholder=" …")


def _ms(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def say(
    curve: LoadCurve,
    objective: Objective | None,
    output: Path,
    *,
    as_json: bool,
    verdict: Verdict,
    gate: dict[str, Any] | None = None,
) -> None:
    """Print the result.

    `verdict`: that of the command, for JSON; `gate`: whether it was met, and a line for each rate.
    """
    at = knee(curve, objective) if objective else None
    full = saturation(curve)
    if as_json:
        click.echo(
            json.dumps({"verdict": verdict, **_object(curve, at, full, output), "gate": gate})
        )
        return
    console = EscapingConsole()
    # A file has no width of its own; eleven columns need this one.
    console.width = console.width if console.is_terminal else 120
    console.print(table(curve))
    for line in [*_lines(curve, objective, at, full), *(gate["lines"] if gate else [])]:
        click.echo(line)
    if curve.steps:
        click.echo(f"{output / CURVE}: every step with its latency distribution")


def _lines(
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
    elif objective and curve.valid:
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
            lines.append(f"  such as: {_on_a_line(answers[kind])}")
    lines += [
        f"refused, {step.load:g} {unit}: {step.refused}" for step in curve.steps if step.refused
    ]
    if curve.asked.relative and curve.valid:
        lines.append(
            "measured on this computer: comparable between settings, not with an AWS instance"
        )
    if curve.ended == "interrupted":
        lines.append("interrupted; what was measured until then is kept")
    return lines


def _object(
    curve: LoadCurve, at: Knee | None, full: Saturation | None, output: Path
) -> dict[str, Any]:
    result: dict[str, Any] = curve.as_object()
    for step, shown in zip(curve.steps, result["steps"], strict=True):
        for percent in (50, 95, 99):
            milliseconds = step.latencies.percentile_ms(percent)
            shown[f"p{percent}_ms"] = milliseconds if step.latencies.count else None
        shown |= {"known": step.known, "refused": step.refused, "failed": step.failed}
        del shown["latencies"], shown["send_lags"]
    for name, point in (("knee", at), ("saturation", full)):
        result[name] = point and {key: asdict(point)[key] for key in ("load", "rps", "bounded")}
    return result | {"relative": curve.asked.relative, "folder": str(output)}
