"""Requests of the rehearsed day: of [traffic] in the file, a CSV file, captured requests, or CloudWatch."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import stated_day
from model_packaging.refusal import PackagingError
from servable.rehearse.recorded import read_captured, read_invocations
from servable.replay.places import PlaceError, place_of
from servable.replay.skipped import SkippedLines, skipped_lines
from servable_scaling.rehearsal.traffic import TrafficError, from_file

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def choose_day(
    loaded: ValidFile, placed: Placement, place: str | None, *, local: bool
) -> list[float]:
    """Return the endpoint's requests by the minute.

    `place`: a date, a CSV file, or captured requests; None: the day that [traffic] states. Raises
    UsageError, ClickException.
    """
    dated = place is not None and _DATE.fullmatch(place) is not None
    if local and not (dated or (place or "").startswith("s3://")):
        raise click.UsageError("--local needs --day with a date or s3://BUCKET/PREFIX")
    try:
        if place is None:
            return _read_stated(loaded)
        if dated:
            return _read_cloudwatch(loaded, place, local=local)
        if Path(place).suffix.lower() == ".csv" and not place.startswith("s3://"):
            return from_file(Path(place))
        return _read_captured(loaded, placed, place, local=local)
    except (TrafficError, PlaceError, PackagingError, OSError) as wrong:
        raise click.ClickException(str(wrong)) from None


def _read_stated(loaded: ValidFile) -> list[float]:
    traffic = loaded.environment.traffic
    if traffic.day is not None and "traffic.profile" in loaded.overrides:
        if "traffic.day" in loaded.overrides:
            raise click.UsageError("--set traffic.profile and --set traffic.day: give one of them")
        traffic = traffic.model_copy(update={"day": None})  # the profile is for this run
    stated = stated_day(traffic)
    if stated is None:
        raise click.UsageError(
            f"[traffic] of {loaded.file} states no day; write profile and peak_rps into it, or give "
            "--set traffic.profile=daily --set traffic.peak_rps=100, or --day PLACE"
        )
    return stated


def _read_captured(loaded: ValidFile, placed: Placement, place: str, *, local: bool) -> list[float]:
    environment = loaded.environment

    def connect_s3() -> Any:
        # Only here: it needs boto3, of the extra [aws].
        from servable.project.account import account_of

        return account_of(environment, local=local, endpoint_url=None).client("s3")

    known, skipped = environment.capture, SkippedLines()
    # A shadow variant's requests are the endpoint's, and of a variant without weight nothing is known.
    share = (None if placed.variant.shadow else environment.share(placed.name)) or 1.0
    found = read_captured(
        place_of(place, connect_s3),
        place,
        skipped,
        variant=placed.name,
        share=share,
        percent=known.sample_percent if known else 100,
    )
    for sentence in skipped_lines(skipped.all):
        click.echo(sentence, err=True)
    return found


def _read_cloudwatch(loaded: ValidFile, date: str, *, local: bool) -> list[float]:
    try:
        day = datetime.strptime(date, "%Y-%m-%d")
    except ValueError:
        raise click.UsageError(
            f"--day {date} isn't a date; write YYYY-MM-DD, such as 2026-11-20"
        ) from None
    # Only here: it needs boto3, of the extra [aws].
    from servable.project.account import AwsError, account_of, remedy_for

    environment = loaded.environment
    account = account_of(environment, local=local, endpoint_url=None)
    account.meant()
    try:
        return read_invocations(
            account.client("cloudwatch"),
            endpoint=environment.endpoint.name,
            variants=list(environment.production_variants),
            day=day,
            now=datetime.now(UTC),
        )
    except AwsError as wrong:
        remedy = remedy_for(wrong, "allow cloudwatch:GetMetricData to these credentials")
        raise click.ClickException(f"CloudWatch: {wrong}; {remedy}") from None
