"""`servable rehearse ENV`: a day of traffic against the policies, before it costs anything."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from servable.project import ENVIRONMENTS, SET, one_environment
from servable.rehearse.output import show
from servable.rehearse.rehearsal import Incidents, as_json, measured, rehearsed, variant_of
from servable.rehearse.traffic import PROFILES, from_file, profile

POSITIVE = click.FloatRange(0, min_open=True)
MINUTE = click.IntRange(0, 7 * 24 * 60 - 1)
# A choice of ours, where neither is given nor in the file: the base is a tenth of the peak.
BASE_SHARE = 0.1


@click.command()
@click.argument("environment", metavar="ENV")
@ENVIRONMENTS
@SET
@click.option("--variant", help="Variant to rehearse (default: the first with instances).")
@click.option(
    "--traffic",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV of minute,requests; all variants together.",
)
@click.option("--profile", "shape", type=click.Choice(list(PROFILES)), help="A day of this shape.")
@click.option(
    "--peak-rps", type=POSITIVE, help="Peak of the shape, requests/s (default: traffic.peak_rps)."
)
@click.option(
    "--base-rps",
    type=click.FloatRange(0),
    help="Base of the shape, requests/s (default: quiet_rps).",
)
@click.option("--rate-per-instance", type=POSITIVE, help="Requests/s that one instance answers.")
@click.option("--p50-ms", type=POSITIVE, help="Median latency of an instance with little to do.")
@click.option("--p99-ms", type=POSITIVE, help="p99 latency of an instance with little to do.")
@click.option("--deploy-at", type=MINUTE, help="Minute in which a deployment begins.")
@click.option("--instance-dies", type=MINUTE, multiple=True, help="Minute; may be repeated.")
@click.option("--zone-fails", type=MINUTE, multiple=True, help="Minute; may be repeated.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of the page."
)
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON, with every minute.")
def rehearse(environment: str, folder: str, sets: tuple[str, ...], **options: Any) -> int:
    """Rehearse a day of traffic against ENV's scaling policies and alarms.

    Exits with 1 if a minute was outside of the objective, alarms.p99_latency_ms.
    """
    loaded, _ = one_environment(environment, folder, sets)
    assert loaded.environment is not None  # one_environment has looked
    placed = variant_of(loaded, options["variant"])
    if (options["traffic"] is None) == (options["shape"] is None):
        raise click.UsageError("give either --traffic FILE or --profile " + "|".join(PROFILES))
    if options["traffic"]:
        requests = from_file(options["traffic"])
    else:
        known = loaded.environment.traffic
        peak = options["peak_rps"] or known.peak_rps
        if peak is None:
            raise click.UsageError(
                "--profile needs --peak-rps, or peak_rps in [traffic] of the file"
            )
        base = next(
            one
            for one in (options["base_rps"], known.quiet_rps, BASE_SHARE * peak)
            if one is not None
        )
        if base > peak:
            raise click.UsageError(f"--base-rps {base:g} is above the peak, {peak:g} requests/s")
        requests = profile(options["shape"], peak_rps=peak, base_rps=base)
    one = measured(
        loaded,
        placed,
        rate=options["rate_per_instance"],
        p50_ms=options["p50_ms"],
        p99_ms=options["p99_ms"],
    )
    incidents = Incidents(
        deploy=options["deploy_at"],
        instance_dies=options["instance_dies"],
        zone_fails=options["zone_fails"],
    )
    result = rehearsed(loaded, placed, requests, one, incidents)
    if options["json_wanted"]:
        click.echo(json.dumps(as_json(result), default=datetime.isoformat))
    else:
        show(result)
    if options["output"] is not None:
        from servable.rehearse.page import write  # it needs matplotlib, of the extra [tune]

        click.echo(f"page: {write(options['output'], result)}", err=options["json_wanted"])
    return 0 if result.held else 1
