"""`servable load ENV --gate`: check that ENV sustains the traffic that its file expects."""

import dataclasses
import math

import click

from infra.parameters.environment import Environment
from servable.load.measurement import LoadCurve, LoadStep
from servable.load.objective import Objective, overloaded
from servable.load.options import LoadOptions


def expected(environment: Environment, options: LoadOptions) -> LoadOptions:
    """Fill in rate and objective from the file. Raises click.UsageError for a missing one."""
    peak_rps = environment.traffic.peak_rps
    rates = options.rates or ((peak_rps,) if peak_rps else None)
    p99_ms = options.p99_ms or environment.alarms.p99_latency_ms
    missing = [
        f"{key} in ENV's file, or {option}"
        for value, key, option in (
            (rates, "traffic.peak_rps", "--rates"),
            (p99_ms, "alarms.p99_latency_ms", "--p99-ms"),
        )
        if not value
    ]
    if missing:
        raise click.UsageError(
            f"--gate: the expected traffic is unknown; set {'; and '.join(missing)}"
        )
    # Each step takes its whole time: a p99 depends on few requests, and it decides the gate.
    return dataclasses.replace(
        options, rates=rates, p99_ms=p99_ms, least_seconds=options.step_seconds
    )


def passed(curve: LoadCurve, objective: Objective) -> bool:
    """Every step was sent in time, kept up with and answered within the objective."""
    return bool(curve.steps) and all(_why_not(step, objective) is None for step in curve.steps)


def verdict(curve: LoadCurve, objective: Objective) -> list[str]:
    """Return a line for each rate."""
    return [_line(step, objective) for step in curve.steps] or ["gate: nothing was measured"]


def _line(step: LoadStep, objective: Objective) -> str:
    p99_ms = step.latencies.p99_ms if step.latencies.count else math.nan
    shown = (
        f"{step.load:g} requests/s: p99 {p99_ms:.1f} ms, at most {objective.most_ms:g}; "
        f"{100 * step.failed_share:.2g} % failed, at most {100 * objective.most_failed_share:g}"
    )
    why = _why_not(step, objective)
    return f"gate: met, {shown}" if why is None else f"gate: NOT met, {shown}; {why}"


def _why_not(step: LoadStep, objective: Objective) -> str | None:
    """Latency counts from when a request was meant to be sent: lateness makes it worse, never better.

    So a step that was sent somewhat late and yet kept its objective is passed all the same.
    """
    meant = step.load * step.seconds
    # Random arrivals differ from their mean by chance, four standard deviations hardly ever.
    if step.sent < meant - 4 * math.sqrt(meant):
        return f"only {step.sent} of {meant:.0f} requests were sent: raise --processes"
    if step.failed_share > objective.most_failed_share:
        return "too many requests failed"
    if overloaded(step):
        return "answers fall behind what is sent"
    if objective.met_by(step):
        return None
    return "too slow" if step.refused is None else f"too slow; {step.refused}"
