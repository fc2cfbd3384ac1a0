"""Rehearse a day of one variant with its measured instance and its environment file."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, find_placement
from infra.parameters.rehearsal_scenario import (
    MeasuredInstance,
    ScalingDelays,
    build_scenario,
    disable_sleep,
    estimate_deployment_seconds,
    list_missing_keys,
    list_scaling_delays,
)
from servable.verdict import Verdict
from servable_scaling.rehearsal.day import RehearsedDay, rehearse
from servable_scaling.rehearsal.scenario import (
    Scenario,
    compute_longest_wait_seconds,
    compute_mean_wait_seconds,
)
from servable_scaling.rehearsal.traffic import generate_random_day

LOADS = Path(".servable") / "load"
# The article's retrieval model on ml.c5.9xlarge: the rate is in examples/retrieval/README.md; the article
# states no latency, so that the latencies are our choice.
EXAMPLE_RPS, EXAMPLE_P50_MS, EXAMPLE_P99_MS = 164.0, 20.0, 60.0
# Days like the given one, each with a different size. Our choice: the largest exceeds nineteen of twenty.
SIMILAR_DAYS = 12
# Minutes a day on the average, with a margin to the one that a verdict allows.
MOST_BROKEN_MINUTES = 0.5


@dataclass(frozen=True, kw_only=True)
class PacedDay:
    """The given day, rehearsed with one pace at which instances start."""

    pace: ScalingDelays
    scenario: Scenario
    day: RehearsedDay


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The rehearsed day with the data that is needed to show it.

    `paced`: the day at each pace, the slowest last.
    """

    environment: str
    variant: str
    measured: MeasuredInstance
    paced: Sequence[PacedDay]
    unstated: Sequence[str]
    """Keys whose absence makes the pace a range."""
    similar: Sequence[float]
    """Minutes outside of the objective on days like the given one, at the slowest pace.

    Empty if the given day fails.
    """
    deployment_minutes: int | None
    usd_per_hour: float | None
    awake_hours: float | None = None
    """Instance hours of the same day if the variant never scaled to zero; None if it never does."""

    @property
    def scenario(self) -> Scenario:
        return self.paced[-1].scenario

    @property
    def day(self) -> RehearsedDay:
        return self.paced[-1].day

    @property
    def usd(self) -> float | None:
        hours = self.day.instance_hours
        return None if self.usd_per_hour is None else hours * self.usd_per_hour

    @property
    def similar_broken_minutes(self) -> float:
        """Return the average minutes per day outside of the objective, on similar days.

        NaN: there are no similar days.
        """
        return statistics.fmean(self.similar) if self.similar else math.nan

    @property
    def verdict(self) -> Verdict:
        if all(paced.day.broken for paced in self.paced):
            return "does not hold"
        expected = [paced.day.expected_broken_minutes for paced in self.paced]
        if any(paced.day.broken for paced in self.paced) or max(expected) > MOST_BROKEN_MINUTES:
            return "cannot be told"
        return "holds" if self.similar_broken_minutes <= MOST_BROKEN_MINUTES else "cannot be told"


def choose_instance(
    loaded: ValidFile, placed: Placement, given: Sequence[float] | None
) -> MeasuredInstance:
    """Return the instance's rate and latencies, from the best available source.

    The sources are `given`, the newest `servable load`, the file, and an example. `given`: the
    rate, and perhaps p50 and p99 in milliseconds.
    """
    newest = _read_newest_load(loaded.root, loaded.name)
    scaling = placed.variant.scaling
    stated = scaling.max_rps_per_instance if scaling else None
    sources: list[tuple[str, Sequence[float | None]]] = [
        ("given", (*(given or ()), None, None, None)),
        ("max_rps_per_instance in the file", (stated, None, None)),
        ("an example", (EXAMPLE_RPS, EXAMPLE_P50_MS, EXAMPLE_P99_MS)),
    ]
    if newest is not None:
        sources.insert(1, (newest.source, (newest.rate_rps, newest.p50_ms, newest.p99_ms)))
    (rate_rps, of_rate), (p50_ms, of_p50), (p99_ms, of_p99) = (
        next((value, source) for source, values in sources if (value := values[at]))
        for at in range(3)
    )
    if of_rate == "an example":
        of_rate += "; measure yours with `servable load`"
    source = f"rate: {of_rate}; p50: {of_p50}; p99: {of_p99}"
    return MeasuredInstance(rate_rps=rate_rps, p50_ms=p50_ms, p99_ms=p99_ms, source=source)


def _read_newest_load(root: Path, name: str) -> MeasuredInstance | None:
    """Return the measured instance from the newest load test, or None if there is none.

    It has the maximum requests/s, and the latencies of the lightest load.
    """
    files = sorted(root.glob(f"{LOADS}/**/curve.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        return None
    from servable.measured.measurement import LoadCurve  # it needs the extra [tune]

    for file in reversed(files):
        try:
            curve = LoadCurve.read(file)
        except (OSError, ValueError):
            continue
        steps = [step for step in curve.valid_steps if step.latencies.count]
        if curve.asked.environment == name and steps:
            lightest = steps[0].latencies
            return MeasuredInstance(
                rate_rps=max(step.throughput_rps.value for step in steps),
                p50_ms=lightest.compute_percentile_ms(50),
                p99_ms=lightest.compute_percentile_ms(99),
                source="servable load" + (" of this computer" if curve.asked.is_relative else ""),
            )
    return None


def find_variant(loaded: ValidFile, name: str | None) -> Placement:
    """Return the named variant, or the first that has instances.

    Raises click.UsageError for an unknown name, ClickException if no variant can be rehearsed.
    """
    environment = loaded.environment
    names = [
        key for key, variant in environment.serving_variants.items() if variant.serverless is None
    ]
    if name is not None and name not in names:
        allowed = ", ".join(names) or "none: all are serverless"
        raise click.UsageError(f"--variant {name}: no variant with instances; allowed: {allowed}")
    if not names or environment.asynchronous is not None:
        raise click.ClickException(
            f"{loaded.file}: only real-time variants with instances are rehearsed; this environment has none"
        )
    placed = find_placement(environment, name or names[0])
    if placed is None:
        raise click.ClickException(f"{loaded.file}: run `servable check {loaded.name}` first")
    return placed


def rehearse_variant(
    loaded: ValidFile,
    placed: Placement,
    requests: Sequence[float],
    instance: MeasuredInstance,
    deploy_at: int | None = None,
) -> Rehearsal:
    """Rehearse the day at each pace, and similar days at the slowest pace.

    Raises ClickException for a policy that can't be read.
    """
    environment = loaded.environment
    if placed.variant.can_sleep and deploy_at is not None:
        raise click.UsageError(
            f"--deploy-at: {loaded.file}: {placed.name} scales to zero; AWS does not document how long new "
            "copies take next to the old ones; omit it"
        )
    row = environment.prices.find_instance_price(placed.instance.name, environment.region)
    paced: list[PacedDay] = []
    *_, slowest = several = list_scaling_delays(placed)
    try:
        for pace in several:
            planned = build_scenario(environment, placed, requests, instance, deploy_at, pace)
            if paced:  # compute the instance once for all paces
                planned = replace(planned, model=paced[0].scenario.model)
            day = rehearse(planned if pace == slowest else planned.reduce_to_scaling())
            paced.append(PacedDay(pace=pace, scenario=planned, day=day))
        held = not any(each.day.broken for each in paced)
        similar = [day.expected_broken_minutes for day in rehearse_similar(planned)] if held else []
        awake_hours = None
        if planned.sleep is not None:
            awake = disable_sleep(environment, placed)
            always = find_placement(awake, placed.name) or placed
            planned = build_scenario(awake, always, requests, instance, pace=slowest)
            awake_hours = rehearse(planned.reduce_to_scaling()).instance_hours
    except ValueError as wrong:
        raise click.ClickException(f"{loaded.file}: {wrong}") from None
    count = paced[-1].day.deployed_with
    seconds = None if count is None else estimate_deployment_seconds(environment, placed, count)
    return Rehearsal(
        environment=loaded.name,
        variant=placed.name,
        measured=instance,
        paced=paced,
        unstated=list_missing_keys(placed),
        similar=similar,
        deployment_minutes=None if seconds is None else round(seconds / 60),
        usd_per_hour=None if row is None else row.usd_per_hour,
        awake_hours=awake_hours,
    )


def rehearse_similar(planned: Scenario) -> Iterator[RehearsedDay]:
    """Rehearse days like the planned one, each with a different size."""
    quick = planned.reduce_to_scaling()
    for seed in range(SIMILAR_DAYS):
        quantile = (seed + 0.5) / SIMILAR_DAYS
        whole = planned.sleep is not None
        requests = generate_random_day(planned.requests, seed, quantile=quantile, whole=whole)
        yield rehearse(replace(quick, requests=requests))


def build_json(result: Rehearsal) -> dict[str, Any]:
    """Convert the rehearsal, minute by minute, to JSON-compatible data."""
    scenario, day = result.scenario, result.day
    delay = scenario.metric_delay_seconds
    return {
        "environment": result.environment,
        "variant": result.variant,
        "verdict": result.verdict,
        "held": {"holds": True, "does not hold": False}.get(result.verdict),
        "unstated": list(result.unstated),
        "paces": [
            {
                "start_minutes": paced.pace.start_minutes,
                "metric_delay_seconds": paced.pace.metric_delay_seconds,
                "broken_minutes": len(paced.day.broken),
                "expected_broken_minutes": paced.day.expected_broken_minutes,
                "refused": paced.day.refused_requests,
            }
            for paced in result.paced
        ],
        "similar_days_broken_minutes": list(result.similar),
        "deployment_minutes": result.deployment_minutes,
        "objective": {"p99_ms": scenario.p99_ms},
        "broken_minutes": day.broken,
        "woken_minutes": day.woken,
        "refused": day.refused_requests,
        "instance_hours": day.instance_hours,
        "sleep": None if scenario.sleep is None else _build_sleep_json(result),
        "usd": result.usd,
        "measured": vars(result.measured),
        "start_minutes": scenario.start_minutes,
        "routing": scenario.routing,
        "choices_changed": {"metric_delay_seconds": delay} if delay else {},
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


def _build_sleep_json(result: Rehearsal) -> dict[str, Any]:
    waits, sleep = result.day.waits, result.scenario.sleep
    return {
        **vars(sleep),
        "asleep_minutes": sum(not minute.answering for minute in result.day.minutes),
        "waiting_callers": result.day.waiting_callers,
        "failed_callers": result.day.gave_up,
        "mean_wait_seconds": compute_mean_wait_seconds(waits),
        "longest_wait_seconds": compute_longest_wait_seconds(waits),
        "instance_hours_without_sleep": result.awake_hours,
    }
