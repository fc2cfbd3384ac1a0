"""Requests by the minute of a past day: from SageMaker's data capture, or from CloudWatch."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from servable.captured.lines import CaptureLineError, record_of, seconds_of, variant_of
from servable.replay.places import CapturePlace, captured_files, captured_lines
from servable.replay.skipped import SkippedLines
from servable_scaling.rehearsal.traffic import MOST_MINUTES, TrafficError, filled

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
