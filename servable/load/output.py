"""What a load test says at its end: to people, or to programs."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from servable.load.interval import Interval
from servable.load.knee import Knee, Saturation, knee, saturation
from servable.load.measurement import CURVE, LoadCurve
from servable.load.table import table
from servable.tune.objective import Objective


def say(
    curve: LoadCurve,
    objective: Objective | None,
    output: Path,
    *,
    as_json: bool,
    gate: dict[str, Any] | None = None,
) -> None:
    """`gate`: whether it was held, and a line for each rate."""
    at = knee(curve, objective) if objective else None
    full = saturation(curve)
    if as_json:
        click.echo(json.dumps(_object(curve, at, full, output) | {"gate": gate}))
        return
    console = Console()
    # A file has no width of its own; eleven columns need this one.
    console.width = console.width if console.is_terminal else 120
    console.print(table(curve))
    for line in [*_lines(curve, objective, at, full), *(gate["lines"] if gate else [])]:
        click.echo(line)
    if curve.steps:
        click.echo(f"{output / CURVE}: every step, with its distribution")


def _lines(
    curve: LoadCurve, objective: Objective | None, at: Knee | None, full: Saturation | None
) -> list[str]:
    unit = "users" if curve.loop == "closed" else "requests/s"
    lines = []
    if full:
        least = "" if full.bounded else "at least, the load was not raised further: "
        lines.append(f"most: {least}{_shown(full.rps)} requests/s, from {_shown(full.load)} {unit}")
    if objective and at:
        least = "" if at.bounded else "at least, no step broke it: "
        lines.append(
            f"p{objective.percent:g} within {objective.most_ms:g} ms: {least}"
            f"{_shown(at.rps)} requests/s, at {_shown(at.load)} {unit}"
        )
    elif objective and curve.valid:
        lines.append(
            f"p{objective.percent:g} within {objective.most_ms:g} ms: not even the first step"
        )
    failed: dict[str, int] = {}
    for step in curve.steps:
        for kind, count in (
            step.errors | ({"timeout": step.timeouts} if step.timeouts else {})
        ).items():
            failed[kind] = failed.get(kind, 0) + count
    lines += [f"failed: {count} x {kind}" for kind, count in sorted(failed.items())]
    lines += [
        f"refused, {step.load:g} {unit}: {step.refused}" for step in curve.steps if step.refused
    ]
    if curve.asked.relative and curve.valid:
        lines.append(
            "measured on this machine: it ranks settings, and says nothing about an instance"
        )
    if curve.ended == "interrupted":
        lines.append("interrupted; what was measured until then is kept")
    return lines


def _object(
    curve: LoadCurve, at: Knee | None, full: Saturation | None, output: Path
) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(curve.json())
    for step, shown in zip(curve.steps, found["steps"], strict=True):
        shown |= {
            "p50_ms": step.latencies.p50_ms if step.latencies.count else None,
            "p95_ms": step.latencies.p95_ms if step.latencies.count else None,
            "p99_ms": step.latencies.p99_ms if step.latencies.count else None,
            "known": step.known,
            "refused": step.refused,
            "failed": step.failed,
        }
        del shown["latencies"], shown["send_lags"]
    found["knee"] = None if at is None else _point(at.load, at.rps, at.bounded)
    found["saturation"] = None if full is None else _point(full.load, full.rps, full.bounded)
    return found | {"relative": curve.asked.relative, "folder": str(output)}


def _point(load: Interval, rps: Interval, bounded: bool) -> dict[str, Any]:
    return {
        name: {"value": one.value, "low": one.low, "high": one.high}
        for name, one in (("load", load), ("rps", rps))
    } | {"bounded": bounded}


def _shown(one: Interval) -> str:
    return f"{one.value:,.4g} ({one.low:,.4g} to {one.high:,.4g})"
