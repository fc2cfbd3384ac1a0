"""Requests of the rehearsed day, from options or from [traffic] of the file."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import stated_day
from model_packaging.refusal import PackagingError
from servable.rehearse.recorded import captured, invocations
from servable.replay.places import PlaceError, place_of
from servable.replay.skipped import SkippedLines, skipped_lines
from servable_scaling.rehearsal.fleet import Bursts
from servable_scaling.rehearsal.traffic import PROFILES, TrafficError, from_file


@dataclass(frozen=True, kw_only=True)
class DayOptions:
    """At most one day: `traffic`, `shape`, `recording` or `cloudwatch`."""

    traffic: Path | None
    shape: str | None
    recording: str | None
    cloudwatch: datetime | None
    local: bool
    endpoint_url: str | None


def day_of(
    loaded: ValidFile, placed: Placement, options: DayOptions
) -> tuple[list[float], Bursts | None]:
    """(the endpoint's requests by the minute, recorded bursts). Raises UsageError, ClickException."""
    days = (options.traffic, options.shape, options.recording, options.cloudwatch)
    if sum(day is not None for day in days) > 1:
        raise click.UsageError("give one of --traffic, --profile, --recording and --cloudwatch")
    in_s3 = options.recording is not None and options.recording.startswith("s3://")
    if not (options.cloudwatch or in_s3) and (options.local or options.endpoint_url):
        raise click.UsageError(
            "--local and --endpoint-url go with --cloudwatch and --recording s3://…"
        )
    try:
        if options.recording is not None:
            return _recorded(loaded.environment, placed, options, options.recording)
        stated = _day(loaded, options)
    except (TrafficError, PlaceError, PackagingError, OSError) as wrong:
        raise click.ClickException(str(wrong)) from None
    if stated is None:
        shapes = "|".join(PROFILES)
        raise click.UsageError(
            f"give either --traffic FILE or --profile {shapes}, --recording or --cloudwatch; or write "
            f"profile and peak_rps into [traffic] of {loaded.file}"
        )
    return stated, None


def _day(loaded: ValidFile, options: DayOptions) -> list[float] | None:
    environment = loaded.environment
    if options.traffic is not None:
        return from_file(options.traffic)
    if options.shape is not None and environment.traffic.peak_rps is None:
        raise click.UsageError(
            f"--profile needs peak_rps in [traffic] of {loaded.file}, or --set traffic.peak_rps=…"
        )
    if options.cloudwatch is not None:
        return _counted(loaded, options, options.cloudwatch)
    traffic = environment.traffic
    if options.shape is not None:
        traffic = traffic.model_copy(update={"profile": options.shape, "day": None})
    return stated_day(traffic)


def _recorded(
    environment: Environment, placed: Placement, options: DayOptions, recording: str
) -> tuple[list[float], Bursts | None]:
    def s3() -> Any:
        # Only here: it needs boto3, of the extra [aws].
        from servable.aws_account import account_of

        account = account_of(environment, local=options.local, endpoint_url=options.endpoint_url)
        return account.client("s3")

    known, skipped = environment.capture, SkippedLines()
    percent = known.sample_percent if known else 100
    # A shadow variant's requests are the endpoint's, and of a variant without weight nothing is known.
    share = (None if placed.variant.shadow else environment.share(placed.name)) or 1.0
    found = captured(
        place_of(recording, s3),
        recording,
        skipped,
        variant=placed.name,
        share=share,
        percent=percent,
    )
    for sentence in skipped_lines(skipped.all):
        click.echo(sentence, err=True)
    return found


def _counted(loaded: ValidFile, options: DayOptions, day: datetime) -> list[float]:
    # Only here: it needs boto3, of the extra [aws].
    from servable.aws_account import AwsError, account_of, remedy_for

    environment = loaded.environment
    account = account_of(environment, local=options.local, endpoint_url=options.endpoint_url)
    account.meant()
    try:
        return invocations(
            account.client("cloudwatch"),
            endpoint=environment.endpoint.name,
            variants=list(environment.production_variants),
            day=day,
            now=datetime.now(UTC),
        )
    except AwsError as wrong:
        remedy = remedy_for(wrong, "allow cloudwatch:GetMetricData to these credentials")
        raise click.ClickException(f"CloudWatch: {wrong}; {remedy}") from None
