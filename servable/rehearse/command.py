"""`servable rehearse ENV`: a day of traffic against the policies, before it costs anything."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from servable.console.signals import as_ctrl_c
from servable.load.options import LOCAL, numbers, with_options
from servable.project import environment_edit
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, environment_with_endpoint
from servable.rehearse.comparison import compare, list_policies, plan_trials, propose_edit
from servable.rehearse.output import (
    build_comparison_json,
    find_comparison_verdict,
    make_progress,
    show_comparison,
    show_day,
)
from servable.rehearse.rehearsal import (
    Rehearsal,
    build_json,
    choose_instance,
    find_variant,
    rehearse_variant,
)
from servable.rehearse.traffic import choose_day
from servable.verdict import EXIT_CODES
from servable_scaling.rehearsal.traffic import MOST_MINUTES

OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option("--variant", help="Variant to rehearse (default: the first with instances)."),
    click.option(
        "--day",
        metavar="PLACE",
        help="A past day instead of [traffic]: a date (UTC, from CloudWatch), a CSV file of minute,requests, "
        "or captured requests (a file, a folder, or s3://BUCKET/PREFIX).",
    ),
    LOCAL,
    click.option(
        "--per-instance",
        metavar="RPS[,P50,P99]",
        callback=lambda _context, _option, text: None if text is None else _parse_instance(text),
        help="Requests/s that one instance answers, and its p50 and p99 latency in ms under little load "
        "(default: the newest `servable load`).",
    ),
    click.option(
        "--deploy-at",
        type=click.IntRange(0, MOST_MINUTES - 1),
        help="Minute in which a deployment begins.",
    ),
    click.option(
        "--compare",
        "compared",
        multiple=True,
        is_flag=False,
        flag_value="",
        metavar="[NAME=VALUE,…]",
        help="Compare policies: minimum=2,4 (instances), target=50,70 (percent); alone: a usual set. "
        "Repeatable.",
    ),
    click.option("--write", is_flag=True, help="Apply the comparison's diff to ENV's file."),
    click.option(
        "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of the page."
    ),
    click.option("--json", "json_wanted", is_flag=True, help="Print JSON, with every minute."),
)


@dataclass(frozen=True, kw_only=True)
class RehearseOptions:
    """Parsed command-line options."""

    variant: str | None
    day: str | None
    local: bool
    per_instance: tuple[float, ...] | None
    deploy_at: int | None
    compared: tuple[str, ...]
    write: bool
    output: Path | None
    json_wanted: bool


@click.command()
@ENVIRONMENT
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
    placed = find_variant(loaded, options.variant)
    requests = choose_day(loaded, placed, options.day, local=options.local)
    instance = choose_instance(loaded, placed, options.per_instance)
    result = rehearse_variant(loaded, placed, requests, instance, options.deploy_at)
    if options.compared:
        return _compare(loaded, files, placed, requests, result, options)
    if options.json_wanted:
        click.echo(json.dumps(build_json(result), default=datetime.isoformat))
    else:
        show_day(result)
    if options.output is not None:
        from servable.rehearse.page import write_page  # it needs matplotlib, of the extra [tune]

        click.echo(f"page: {write_page(options.output, result)}", err=options.json_wanted)
    return EXIT_CODES[result.verdict]


def _parse_instance(text: str) -> tuple[float, ...]:
    found = numbers(text)
    if len(found) not in (1, 3):
        raise click.BadParameter(f"{text!r}: write RPS or RPS,P50,P99, such as 164 or 164,20,60")
    if len(found) == 3 and found[2] < found[1]:
        raise click.BadParameter(f"{text!r}: p99 is below p50; write RPS,P50,P99")
    return found


def _compare(
    loaded: ValidFile,
    files: Path,
    placed: Placement,
    requests: list[float],
    result: Rehearsal,
    options: RehearseOptions,
) -> int:
    """Compare policies, and show them on the terminal and on the page."""
    policies = list_policies(options.compared, placed)
    trials, left_out, priced = plan_trials(
        loaded, files, placed, policies, requests, result.measured, options.deploy_at
    )
    as_ctrl_c()
    try:
        progress = make_progress()
        comparison = compare(trials, progress, left_out=left_out, priced=priced)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        return 130
    proposal = propose_edit(loaded, comparison)
    if options.write and proposal.diff:
        environment_edit.write(proposal.file, proposal.after)
    if options.json_wanted:
        found = build_comparison_json(comparison, proposal, write=options.write)
        click.echo(json.dumps(found))
    else:
        show_comparison(comparison, proposal, write=options.write)
    if options.output is not None:
        from servable.rehearse.page import write_page  # it needs matplotlib, of the extra [tune]

        page = write_page(options.output, result, comparison, proposal)
        click.echo(f"page: {page}", err=options.json_wanted)
    return EXIT_CODES[find_comparison_verdict(comparison)]
