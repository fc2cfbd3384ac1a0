"""`servable rehearse ENV`: a day of traffic against the policies, before it costs anything."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import Incidents
from servable.load.options import ENDPOINT_URL, LOCAL, with_options
from servable.project import ENVIRONMENTS, SET, environment_with_endpoint
from servable.rehearse import comparison_output
from servable.rehearse.alternatives import Alternative, alternatives
from servable.rehearse.candidates import PolicyTrials, candidates, proposed
from servable.rehearse.comparison import compare
from servable.rehearse.output import show
from servable.rehearse.rehearsal import (
    Rehearsal,
    as_json,
    measured,
    rehearsed,
    variant_of,
)
from servable.rehearse.traffic import DayOptions, day_of
from servable.signals import as_ctrl_c
from servable.tune import environment_edit
from servable.verdict import EXIT_CODES
from servable_scaling.rehearsal.traffic import MOST_MINUTES, PROFILES

POSITIVE = click.FloatRange(0, min_open=True)
MINUTE = click.IntRange(0, MOST_MINUTES - 1)
OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option("--variant", help="Variant to rehearse (default: the first with instances)."),
    # --- the day
    click.option(
        "--traffic",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV of minute,requests; all variants together (default: [traffic] of the file).",
    ),
    click.option(
        "--profile",
        "shape",
        type=click.Choice(list(PROFILES)),
        help="A day of this shape, between quiet_rps and peak_rps of [traffic].",
    ),
    click.option(
        "--recording",
        metavar="PLACE",
        help="Captured requests: a file, a folder, or s3://BUCKET/PREFIX; the day that it was.",
    ),
    click.option(
        "--cloudwatch",
        type=click.DateTime(["%Y-%m-%d"]),
        help="Day (UTC) whose requests CloudWatch has of ENV's endpoint: the last 15.",
    ),
    LOCAL,
    ENDPOINT_URL,
    # --- an instance
    click.option(
        "--rate-per-instance", type=POSITIVE, help="Requests/s that one instance answers."
    ),
    click.option(
        "--p50-ms", type=POSITIVE, help="Median latency of an instance with little to do."
    ),
    click.option("--p99-ms", type=POSITIVE, help="p99 latency of an instance with little to do."),
    # --- what happens
    click.option("--deploy-at", type=MINUTE, help="Minute in which a deployment begins."),
    click.option("--instance-dies", type=MINUTE, multiple=True, help="Minute; may be repeated."),
    click.option("--zone-fails", type=MINUTE, multiple=True, help="Minute; may be repeated."),
    # --- policies against each other
    click.option(
        "--compare",
        "compared",
        multiple=True,
        is_flag=False,
        flag_value="",
        metavar="[NAME=VALUE,…]",
        help="Compare policies: target=50,70 (percent), minimum, maximum, concurrency, steps, schedule, "
        "out-cooldown, in-cooldown, instance-type, or any key; alone: a usual set. May be repeated.",
    ),
    click.option(
        "--days",
        type=click.IntRange(5, 1000),
        default=20,
        show_default=True,
        help="Random days of a comparison, the same for every policy.",
    ),
    click.option(
        "--allowed-minutes",
        type=click.FloatRange(0),
        default=0.0,
        show_default=True,
        help="Minutes a day outside of the objective that the best policy may have.",
    ),
    click.option("--write", is_flag=True, help="Apply the comparison's diff to ENV's file."),
    # --- the answer
    click.option(
        "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of the page."
    ),
    click.option("--json", "json_wanted", is_flag=True, help="Print JSON, with every minute."),
)


@dataclass(frozen=True, kw_only=True)
class RehearseOptions(DayOptions):
    """Values of OPTIONS, each under its parameter's name."""

    variant: str | None
    rate_per_instance: float | None
    p50_ms: float | None
    p99_ms: float | None
    deploy_at: int | None
    instance_dies: tuple[int, ...]
    zone_fails: tuple[int, ...]
    compared: tuple[str, ...]
    days: int
    allowed_minutes: float
    write: bool
    output: Path | None
    json_wanted: bool


@click.command()
@click.argument("environment", metavar="ENV")
@with_options(OPTIONS)
def rehearse(environment: str, folder: str, sets: tuple[str, ...], **values: Any) -> int:
    """Rehearse a day of traffic against ENV's scaling policies and alarms.

    Exits with 1 if minutes are outside of the objective, alarms.p99_latency_ms, however soon instances
    come, and with 3 if it cannot be told; with --compare it exits with 1 if no policy holds it.
    """
    options = RehearseOptions(**values)
    if options.write and (sets or not options.compared):
        raise click.UsageError("--write goes with --compare, and not with --set")
    loaded, files = environment_with_endpoint(environment, folder, sets)
    placed = variant_of(loaded, options.variant)
    requests, bursts = day_of(loaded, placed, options)
    instance = measured(
        loaded,
        placed,
        rate=options.rate_per_instance,
        p50_ms=options.p50_ms,
        p99_ms=options.p99_ms,
    )
    incidents = Incidents(
        deploy=options.deploy_at,
        instance_dies=options.instance_dies,
        zone_fails=options.zone_fails,
    )
    result = rehearsed(loaded, placed, requests, instance, incidents, bursts)
    if options.compared:

        def trials(several: Sequence[Alternative]) -> PolicyTrials:
            return candidates(loaded, files, placed, several, requests, instance, incidents, bursts)

        return _compare(loaded, placed, trials, result, options)
    if options.json_wanted:
        click.echo(json.dumps(as_json(result), default=datetime.isoformat))
    else:
        show(result)
    if options.output is not None:
        from servable.rehearse.page import write  # it needs matplotlib, of the extra [tune]

        click.echo(f"page: {write(options.output, result)}", err=options.json_wanted)
    return EXIT_CODES[result.verdict]


def _compare(
    loaded: ValidFile,
    placed: Placement,
    trials: Callable[[Sequence[Alternative]], PolicyTrials],
    result: Rehearsal,
    options: RehearseOptions,
) -> int:
    """The comparison on the screen, and on the page beside the file's own day."""
    several = alternatives(options.compared, placed, result.scenario)
    running, left_out, priced = trials(several)
    as_ctrl_c()
    try:
        comparison = compare(
            running,
            days=options.days,
            allowed_minutes=options.allowed_minutes,
            left_out=left_out,
            progress=comparison_output.progress(),
        )
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        return 130
    to_write = proposed(loaded, comparison)
    if options.write and to_write.diff:
        environment_edit.write(to_write.file, to_write.after)
    output = {"priced": priced, "write": options.write}
    if options.json_wanted:
        click.echo(json.dumps(comparison_output.as_json(comparison, to_write, **output)))
    else:
        comparison_output.show(comparison, to_write, **output)
    if options.output is not None:
        # They need matplotlib, of the extra [tune].
        from servable.rehearse.page import comparison_tab, write

        tab = comparison_tab(comparison, to_write, priced=priced)
        page = write(options.output, result, (tab,))
        click.echo(f"page: {page}", err=options.json_wanted)
    return 1 if comparison.best is None else 0
