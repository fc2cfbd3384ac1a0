"""Requests of the rehearsed day: of [traffic] in the file, a CSV file, captured requests, or CloudWatch."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import stated_day
from model_packaging.refusal import PackagingError
from servable.captured.lines import CaptureLineError, record_of, seconds_of, variant_of
from servable.replay.places import (
    CapturePlace,
    PlaceError,
    SkippedLines,
    captured_files,
    captured_lines,
    place_of,
    skipped_lines,
)
from servable_scaling.rehearsal.traffic import MOST_MINUTES, TrafficError, filled, from_file

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
# Minutes are kept so long. https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
# (2026-11-22)
KEPT_DAYS = 15
# What a line raises that is no captured request.
_FOREIGN = (CaptureLineError, KeyError, TypeError)


def read_captured(
    place: CapturePlace,
    name: str,
    skipped: SkippedLines,
    *,
    variant: str,
    share: float = 1.0,
    percent: float = 100.0,
) -> list[float]:
    """Return the endpoint's requests by the minute, from the first captured day's midnight (UTC).

    `name`: of the place, for messages. Of files that name variants only those of `variant` count, whose
    `share` of the endpoint's requests they are; files that name none have the endpoint's. `skipped` takes
    what is no captured request, as a replay's does. `percent`: of the requests were captured; the others
    are added. Raises TrafficError, PlaceError.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
    (eventMetadata.inferenceTime, 2026-11-22)
    """
    others: set[str] = set()
    counted = list(_read_times(place, skipped, variant, others))
    times = [time for time, _ in counted]
    if not times and others:
        names = ", ".join(sorted(others))
        raise TrafficError(
            f"{name}: no request of variant {variant}; it has those of {names}; allowed: --variant {names}, "
            f"or the place of {variant}'s"
        )
    if not times:
        first = "".join(f"; {one}" for one in skipped.all[:1])
        raise TrafficError(
            f"{name}: no record of data capture{first}; allowed: a .jsonl file, a folder of them, or "
            "s3://BUCKET/PREFIX"
        )
    midnight = min(times).replace(hour=0, minute=0, second=0, microsecond=0)
    counts: dict[int, float] = {}
    for time, own in counted:
        minute = int((time - midnight) // MINUTE)
        counts[minute] = counts.get(minute, 0.0) + (1 / share if own else 1)
    if max(counts) >= MOST_MINUTES:
        raise TrafficError(
            f"{name}: the records are of {max(times) - min(times)}; allowed: at most 7 days, in a folder of "
            "their own"
        )
    return filled({minute: count * 100 / percent for minute, count in counts.items()})


def _read_times(
    place: CapturePlace, skipped: SkippedLines, variant: str, others: set[str]
) -> Iterator[tuple[datetime, bool]]:
    """Yield (when a request was answered, whether its file names the variant); add variants left out."""
    for file in captured_files(place, skipped):
        of = variant_of(file.name)
        if of not in (None, variant):
            others.add(str(of))
            continue
        for number, _, line in captured_lines(place, file, skipped):
            try:
                seconds = seconds_of(record_of(line)["eventMetadata"]["inferenceTime"])
                yield datetime.fromtimestamp(seconds, UTC), of is not None
            except _FOREIGN:
                skipped.add(file.name, number, "no captured request with its inferenceTime")


def read_invocations(
    cloudwatch: Any, *, endpoint: str, variants: Sequence[str], day: datetime, now: datetime
) -> list[float]:
    """Return the endpoint's requests by the minute of one day (UTC), as SageMaker counted them.

    Raises TrafficError where CloudWatch has none; botocore's errors.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (2026-11-22)
    """
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    if midnight < now - KEPT_DAYS * DAY:
        first = now - (KEPT_DAYS - 1) * DAY
        raise TrafficError(
            f"{midnight:%Y-%m-%d}: CloudWatch keeps minutes for {KEPT_DAYS} days; allowed: "
            f"{first:%Y-%m-%d} and later"
        )
    counts: dict[int, float] = {}
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[
            _build_query(number, endpoint, name) for number, name in enumerate(variants)
        ],
        StartTime=midnight,
        EndTime=midnight + DAY,
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            for time, value in zip(result["Timestamps"], result["Values"], strict=True):
                minute = int((time - midnight) // MINUTE)
                counts[minute] = counts.get(minute, 0.0) + value
    if not counts:
        raise TrafficError(
            f"endpoint {endpoint}: CloudWatch has no requests of {midnight:%Y-%m-%d} (UTC); give a day with "
            "traffic, or the account and region of the endpoint"
        )
    return filled(counts)


def _build_query(number: int, endpoint: str, variant: str) -> dict[str, Any]:
    dimensions = {"EndpointName": endpoint, "VariantName": variant}
    metric = {
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocations",
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return {"Id": f"v{number}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}


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
