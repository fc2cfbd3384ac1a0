"""A day of one variant: what was measured, what its environment file says, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, placement
from infra.parameters.rehearsal_scenario import Incidents, MeasuredInstance, scenario
from servable_scaling.rehearsal.day import RehearsedDay, rehearse
from servable_scaling.rehearsal.scenario import Scenario

LOADS = Path(".servable") / "load"
# The article's retrieval model on ml.c5.9xlarge; it names a rate and no latency, which are a choice of ours.
# The rate is of the table in examples/retrieval/README.md.
EXAMPLE_RPS, EXAMPLE_P50_MS, EXAMPLE_P99_MS = 164.0, 20.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The day with what is needed to show it."""

    environment: str
    variant: str
    measured: MeasuredInstance
    scenario: Scenario
    day: RehearsedDay
    usd_per_hour: float | None

    @property
    def usd(self) -> float | None:
        hours = self.day.instance_hours
        return None if self.usd_per_hour is None else hours * self.usd_per_hour

    @property
    def held(self) -> bool:
        return not self.day.broken


def measured(
    loaded: ValidFile,
    placed: Placement,
    *,
    rate: float | None,
    p50_ms: float | None,
    p99_ms: float | None,
) -> MeasuredInstance:
    """Return the given numbers; else those of the newest `servable load`, the file, or an example."""
    newest = _newest(loaded.root, loaded.name)
    scaling = placed.variant.scaling
    stated = scaling.max_rps_per_instance if scaling else None

    def chosen(
        given: float | None, name: str, *others: tuple[float | None, str]
    ) -> tuple[float, str]:
        loads = [(getattr(newest, name), newest.source)] if newest else []
        sources = ((given, "given"), *loads, *others)
        return next((value, source) for value, source in sources if value)

    rps, of_rate = chosen(
        rate,
        "rate_rps",
        (stated, "max_rps_per_instance in the file"),
        (EXAMPLE_RPS, "an example: measure with `servable load`"),
    )
    p50, of_p50 = chosen(p50_ms, "p50_ms", (EXAMPLE_P50_MS, "an example"))
    p99, of_p99 = chosen(p99_ms, "p99_ms", (EXAMPLE_P99_MS, "an example"))
    if p99 < p50:
        raise click.UsageError(
            f"--p99-ms {p99:g} is below --p50-ms {p50:g}; p99 is never below p50"
        )
    source = f"rate: {of_rate}; p50: {of_p50}; p99: {of_p99}"
    return MeasuredInstance(rate_rps=rps, p50_ms=p50, p99_ms=p99, source=source)


def _newest(root: Path, name: str) -> MeasuredInstance | None:
    """Most requests/s, and p50 and p99 of the lightest load, of the newest load test."""
    files = sorted(root.glob(f"{LOADS}/**/curve.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        return None
    from servable.load.measurement import LoadCurve  # it needs the extra [tune]

    for file in reversed(files):
        try:
            curve = LoadCurve.read(file)
        except (OSError, ValueError):
            continue
        steps = [step for step in curve.valid if step.latencies.count]
        if curve.asked.environment == name and steps:
            lightest = steps[0].latencies
            return MeasuredInstance(
                rate_rps=max(step.throughput_rps.value for step in steps),
                p50_ms=lightest.percentile_ms(50),
                p99_ms=lightest.percentile_ms(99),
                source="servable load" + (" of this computer" if curve.asked.relative else ""),
            )
    return None


def variant_of(loaded: ValidFile, name: str | None) -> Placement:
    """The named variant, or the first that has instances. Raises ClickException."""
    environment = loaded.environment
    names = [key for key, variant in environment.variants.items() if variant.serverless is None]
    if name is not None and name not in names:
        allowed = ", ".join(names) or "none: all are serverless"
        raise click.UsageError(f"--variant {name}: no variant with instances; allowed: {allowed}")
    if not names or environment.asynchronous is not None:
        raise click.ClickException(
            f"{loaded.file}: only real-time variants with instances are rehearsed; this environment has none"
        )
    placed = placement(environment, name or names[0])
    if placed is None:
        raise click.ClickException(f"{loaded.file}: run `servable check {loaded.name}` first")
    return placed


def rehearsed(
    loaded: ValidFile,
    placed: Placement,
    requests: Sequence[float],
    instance: MeasuredInstance,
    incidents: Incidents,
) -> Rehearsal:
    """Run the day. Raises ClickException for a policy that cannot be read."""
    environment = loaded.environment
    planned = scenario(environment, placed, requests, instance, incidents)
    row = environment.prices.instance(placed.instance.name, environment.region)
    try:
        day = rehearse(planned)
    except ValueError as wrong:
        raise click.ClickException(f"{loaded.file}: {wrong}") from None
    return Rehearsal(
        environment=loaded.name,
        variant=placed.name,
        measured=instance,
        scenario=planned,
        day=day,
        usd_per_hour=None if row is None else row.usd_per_hour,
    )


def as_json(result: Rehearsal) -> dict[str, Any]:
    """Everything, minute by minute."""
    scenario, day = result.scenario, result.day
    return {
        "environment": result.environment,
        "variant": result.variant,
        "held": result.held,
        "objective": {"p99_ms": scenario.p99_ms},
        "broken_minutes": day.broken,
        "woken_minutes": day.woken,
        "refused": day.refused,
        "instance_hours": day.instance_hours,
        "usd": result.usd,
        "measured": vars(result.measured),
        "start_minutes": scenario.start_minutes,
        "routing": scenario.routing,
        "choices_changed": scenario.choices.changed(),
        "alarms": [
            {"at": row.at.isoformat(), "alarm": row.alarm, "before": row.before, "state": row.state}
            for row in day.alarms
        ],
        "activities": [
            activity.describe(str(activity.number)) | {"ResourceId": scenario.resource}
            for activity in day.activities
        ],
        "minutes": [vars(minute) for minute in day.minutes],
    }
