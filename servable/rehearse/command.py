"""`servable rehearse ENV`: its day of requests, stated or captured, and how scaling answers it."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import read_stated_day
from model_packaging.refusal import PackagingError
from servable.captured.lines import CaptureLineError, find_file_variant, parse_record, parse_seconds
from servable.console.lines import show_progress_line
from servable.console.signals import enable_ctrl_c
from servable.measured.options import LOCAL, add_options, numbers
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, Project
from servable.rehearse.comparison import compare_policies, list_policies, plan_trials, propose_edit
from servable.rehearse.output import build_comparison_json, show_comparison, show_day
from servable.rehearse.rehearsal import build_json, choose_instance, find_variant, rehearse_variant
from servable.replay.places import (
    CapturePlace,
    PlaceError,
    SkippedLines,
    format_skipped,
    iterate_capture_files,
    iterate_captured_lines,
    open_place,
)
from servable.verdict import EXIT_CODES
from servable_scaling.rehearsal.traffic import (
    MINUTE,
    MINUTES,
    MOST_MINUTES,
    TrafficError,
    fill_minutes,
    read_traffic,
)

DAY = timedelta(days=1)
# CloudWatch keeps minutes for 15 days. https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
# (2026-11-22)
KEPT_DAYS = 15


def count_captured_requests(
    place: CapturePlace,
    name: str,
    skipped: SkippedLines,
    *,
    variant: str,
    share: float = 1.0,
    percent: float = 100.0,
) -> list[float]:
    """Return the endpoint's requests per minute, from the first captured day's midnight (UTC).

    `name`: the name of the place, for messages. If files name variants, only those of `variant`
    count, which are a `share` of the endpoint's requests; files without a variant have all
    requests of the endpoint. `skipped` collects the lines that aren't captured requests.
    `percent`: the captured percentage of the requests; the others are added. Raises TrafficError,
    PlaceError.
    Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
    (eventMetadata.inferenceTime, 2026-11-22)
    """
    others: set[str] = set()
    counts: dict[int, float] = defaultdict(float)  # by the minute since 1970
    for file in iterate_capture_files(place, skipped):
        named = find_file_variant(file.name)
        if named not in (None, variant):
            others.add(str(named))
            continue
        for number, _, line in iterate_captured_lines(place, file, skipped):
            try:
                metadata = parse_record(line)["eventMetadata"]
                minute = int(parse_seconds(metadata["inferenceTime"]) // 60)
            except (CaptureLineError, KeyError, TypeError):  # not a captured request
                skipped.add(file.name, number, "no captured request with its inferenceTime")
            else:
                counts[minute] += 1 if named is None else 1 / share
    if not counts and others:
        names = ", ".join(sorted(others))
        raise TrafficError(
            f"{name}: no request of variant {variant}, only of {names}; allowed: --variant {names}, "
            f"or the path of {variant}'s requests"
        )
    if not counts:
        first = "".join(f"; {one}" for one in skipped.counts[:1])
        raise TrafficError(
            f"{name}: no data capture record{first}; allowed: a .jsonl file, a folder of them, or "
            "s3://BUCKET/PREFIX"
        )
    midnight = min(counts) // MINUTES * MINUTES
    if max(counts) - midnight >= MOST_MINUTES:
        raise TrafficError(
            f"{name}: the records span {(max(counts) - min(counts)) * MINUTE}; allowed: at most 7 days, in a "
            "folder of their own"
        )
    return fill_minutes(
        {minute - midnight: count * 100 / percent for minute, count in counts.items()}
    )


def read_invocations(
    cloudwatch: Any, *, endpoint: str, variants: Sequence[str], day: datetime, now: datetime
) -> list[float]:
    """Return the endpoint's requests per minute of one day (UTC), as SageMaker counted them.

    Raises TrafficError if CloudWatch has none, and botocore's errors.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
    (2026-11-22)
    """
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    if midnight < now - KEPT_DAYS * DAY:
        first = now - (KEPT_DAYS - 1) * DAY
        raise TrafficError(
            f"{midnight:%Y-%m-%d}: CloudWatch keeps minutes for {KEPT_DAYS} days; allowed: "
            f"{first:%Y-%m-%d} and later"
        )
    queries = []
    for number, variant in enumerate(variants):
        dimensions = {"EndpointName": endpoint, "VariantName": variant}
        metric = {
            "Namespace": "AWS/SageMaker",
            "MetricName": "Invocations",
            "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
        }
        stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
        queries.append({"Id": f"v{number}", "MetricStat": stat})
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=midnight, EndTime=midnight + DAY
    )
    counts: dict[int, float] = defaultdict(float)
    for page in pages:
        for result in page["MetricDataResults"]:
            for time, value in zip(result["Timestamps"], result["Values"], strict=True):
                counts[int((time - midnight) // MINUTE)] += value
    if not counts:
        raise TrafficError(
            f"endpoint {endpoint}: CloudWatch has no requests on {midnight:%Y-%m-%d} (UTC); pass a day with "
            "traffic, or set the endpoint's account and region"
        )
    return fill_minutes(counts)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def choose_day(
    loaded: ValidFile, placed: Placement, place: str | None, *, local: bool
) -> list[float]:
    """Return the endpoint's requests per minute from the chosen source.

    `place`: a date, a CSV file, or captured requests; None: the day that [traffic] states. Raises
    UsageError, ClickException.
    """
    dated = place is not None and _DATE.fullmatch(place) is not None
    if local and not (dated or (place or "").startswith("s3://")):
        raise click.UsageError("--local needs --day with a date or s3://BUCKET/PREFIX")
    try:
        if place is None:
            return _read_traffic_day(loaded)
        if dated:
            return _read_cloudwatch(loaded, place, local=local)
        if Path(place).suffix.lower() == ".csv" and not place.startswith("s3://"):
            if not Path(place).exists():
                remedy = "check the path, or pass a date such as 2026-11-20"
                raise TrafficError(f"--day {place}: there is no such file; {remedy}")
            return read_traffic(Path(place))
        return _read_captured_day(loaded, placed, place, local=local)
    except (TrafficError, PlaceError, PackagingError, OSError) as wrong:
        raise click.ClickException(str(wrong)) from None


def _read_traffic_day(loaded: ValidFile) -> list[float]:
    traffic = loaded.environment.traffic
    if traffic.day is not None and "traffic.profile" in loaded.overrides:
        if "traffic.day" in loaded.overrides:
            raise click.UsageError(
                "use either --set traffic.profile or --set traffic.day, not both"
            )
        traffic = traffic.model_copy(update={"day": None})  # the profile is for this run
    stated = read_stated_day(traffic)
    if stated is None:
        raise click.UsageError(
            f"[traffic] of {loaded.file} describes no day; set profile and peak_rps in it, or pass "
            "--set traffic.profile=daily --set traffic.peak_rps=100, or --day PLACE"
        )
    return stated


def _read_captured_day(
    loaded: ValidFile, placed: Placement, place: str, *, local: bool
) -> list[float]:
    environment = loaded.environment

    def connect_s3() -> Any:
        from servable.project.account import open_account  # it needs boto3, of the extra [aws]

        return open_account(environment, local=local, endpoint_url=None).client("s3")

    known, skipped = environment.capture, SkippedLines()
    # A shadow variant receives all requests; the share of a variant without a weight is unknown.
    share = (None if placed.variant.shadow else environment.compute_share(placed.name)) or 1.0
    found = count_captured_requests(
        open_place(place, connect_s3),
        place,
        skipped,
        variant=placed.name,
        share=share,
        percent=known.sample_percent if known else 100,
    )
    for sentence in format_skipped(skipped.counts):
        click.echo(sentence, err=True)
    return found


def _read_cloudwatch(loaded: ValidFile, date: str, *, local: bool) -> list[float]:
    try:
        day = datetime.strptime(date, "%Y-%m-%d")
    except ValueError:
        raise click.UsageError(
            f"--day {date} isn't a date; write YYYY-MM-DD, such as 2026-11-20"
        ) from None
    # These need boto3, of the extra [aws].
    from servable.project.account import AwsError, choose_remedy, open_account

    environment = loaded.environment
    account = open_account(environment, local=local, endpoint_url=None)
    account.check_credentials()
    try:
        return read_invocations(
            account.client("cloudwatch"),
            endpoint=environment.endpoint.name,
            variants=list(environment.production_variants),
            day=day,
            now=datetime.now(UTC),
        )
    except AwsError as wrong:
        remedy = choose_remedy(wrong, "grant these credentials cloudwatch:GetMetricData")
        raise click.ClickException(f"CloudWatch: {wrong}; {remedy}") from None


def _parse_instance(text: str) -> tuple[float, ...]:
    found = numbers(text)
    if len(found) not in (1, 3):
        raise click.BadParameter(f"{text!r}: write RPS or RPS,P50,P99, such as 164 or 164,20,60")
    if len(found) == 3 and found[2] < found[1]:
        raise click.BadParameter(f"{text!r}: p99 is below p50; write RPS,P50,P99")
    return found


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
        type=_parse_instance,
        help="Requests/s that one instance sustains, and its p50 and p99 latency in ms under low load "
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
        help="Compare policies: minimum=2,4 (instances), target=50,70 (percent); no value: a default set. "
        "Repeatable.",
    ),
    click.option("--write", is_flag=True, help="Apply the comparison's diff to ENV's file."),
    click.option(
        "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder of the page."
    ),
    click.option("--json", "json_wanted", is_flag=True, help="Print JSON, with every minute."),
)


@click.command()
@ENVIRONMENT
@add_options(OPTIONS)
def rehearse(
    environment: str,
    folder: str,
    sets: tuple[str, ...],
    variant: str | None,
    day: str | None,
    local: bool,
    per_instance: tuple[float, ...] | None,
    deploy_at: int | None,
    compared: tuple[str, ...],
    write: bool,
    output: Path | None,
    json_wanted: bool,
) -> int:
    """Rehearse a day of traffic against ENV's scaling policies and alarms.

    Exits with 1 if minutes miss the objective, alarms.p99_latency_ms, however fast instances
    start, and with 3 if inconclusive; with --compare it exits with 1 if no policy meets it.
    """
    if write and (sets or not compared):
        raise click.UsageError("--write requires --compare and can't be combined with --set")
    loaded, files = (project := Project(folder, sets)).load_endpoint(environment), project.files
    placed = find_variant(loaded, variant)
    requests = choose_day(loaded, placed, day, local=local)
    instance = choose_instance(loaded, placed, per_instance)
    result = rehearse_variant(loaded, placed, requests, instance, deploy_at)
    comparison, diff = None, ""
    if compared:
        policies = list_policies(compared, placed)
        trials, left_out = plan_trials(
            loaded, files, placed, policies, requests, instance, deploy_at
        )
        enable_ctrl_c()
        try:
            with show_progress_line() as show:
                comparison = compare_policies(trials, show, left_out)
        except KeyboardInterrupt:
            click.echo("interrupted; nothing was written", err=True)
            return 130
        diff = propose_edit(loaded, comparison, write=write)
    if json_wanted:
        found = build_json(result)
        if comparison is not None:
            found = build_comparison_json(comparison, diff, write=write)
        click.echo(json.dumps(found, default=datetime.isoformat))
    elif comparison is not None:
        show_comparison(comparison, diff, write=write)
    else:
        show_day(result)
    if output is not None:
        from servable.rehearse.page import write_page  # it needs matplotlib, of the extra [tune]

        page = write_page(output, result, comparison, diff)
        click.echo(f"page: {page}", err=json_wanted)
    return EXIT_CODES[(comparison or result).verdict]
