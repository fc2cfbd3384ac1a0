"""The requests by the minute of a day that was: from SageMaker's data capture, or from CloudWatch."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from servable.capture_lines import CaptureLineError, record_of, seconds_of, variant_of
from servable.replay.places import CapturePlace, captured_files, captured_lines
from servable.replay.skipped import SkippedLines
from servable_scaling.rehearsal.fleet import IN_BURSTS, NO_BURSTS, Bursts
from servable_scaling.rehearsal.traffic import MOST_MINUTES, TrafficError, filled

# The minute's own number tells of bursts that last longer.
LONGEST_BURST_SECONDS = 30
# Minutes with fewer requests a second say nothing of seconds, and as many standard deviations are no chance.
LEAST_RPS, SURE = 0.5, 4.0
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
# Minutes are kept so long. https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
# (2026-11-22)
KEPT_DAYS = 15
# What a line raises that is no captured request.
_FOREIGN = (CaptureLineError, KeyError, TypeError)


def captured(
    place: CapturePlace,
    name: str,
    skipped: SkippedLines,
    *,
    variant: str,
    share: float = 1.0,
    percent: float = 100.0,
) -> tuple[list[float], Bursts | None]:
    """The endpoint's minutes from the first captured day's midnight (UTC), and their bursts.

    `name`: of the place, for messages. Of files that name variants only those of `variant` count, whose
    `share` of the endpoint's requests they are; files that name none have the endpoint's. `skipped` takes
    what is no captured request, as a replay's does. `percent`: of the requests were captured; the others
    are added. Raises TrafficError, PlaceError.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
    (eventMetadata.inferenceTime, 2026-11-22)
    """
    others: set[str] = set()
    counted = list(_times(place, skipped, variant, others))
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
    minutes = filled({minute: count * 100 / percent for minute, count in counts.items()})
    return minutes, bursts_of([(time - midnight).total_seconds() for time in times])


def _times(
    place: CapturePlace, skipped: SkippedLines, variant: str, others: set[str]
) -> Iterator[tuple[datetime, bool]]:
    """(when a request was answered, whether its file names the variant). `others`: the variants left out."""
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


def bursts_of(times: Sequence[float]) -> Bursts | None:
    """Bursts within minutes, from moments in seconds; None where there are too few to see any.

    Requests by the second vary by their number where they come at random moments; what they vary beyond
    that are bursts, of which half of the requests are. How long counts stay alike says how long they last.
    """
    minutes: dict[int, Counter[int]] = {}
    for time in times:
        minutes.setdefault(int(time // 60), Counter())[int(time % 60)] += 1
    beyond = weight = noise = 0.0
    alike = [0.0] * LONGEST_BURST_SECONDS
    for counts in minutes.values():
        mean = counts.total() / 60
        if mean < LEAST_RPS:
            continue
        off = [counts[second] - mean for second in range(60)]
        beyond += sum(each * each for each in off) / 59 - mean
        weight += mean * mean
        noise += 2 * mean * mean / 59
        for lag in range(1, LONGEST_BURST_SECONDS):
            pairs = zip(off, off[lag:], strict=False)
            alike[lag] += sum(first * second for first, second in pairs) / (60 - lag)
    if not weight:
        return None
    if beyond < SURE * math.sqrt(noise):
        return NO_BURSTS
    low, high = 1.0, 60.0
    for _ in range(40):
        peak = (low + high) / 2
        calm = Bursts(peak).calm
        # The variance of a rate that is `peak` for one part of the time and `calm` for the other.
        varies = (peak + calm) / 2 - 1
        low, high = (peak, high) if varies < beyond / weight else (low, peak)
    lasting = 0.0
    for lag in range(1, LONGEST_BURST_SECONDS):
        if alike[lag] <= 0.05 * beyond:
            break
        lasting += alike[lag] / beyond
    seconds = (1 + 2 * lasting) / (1 - IN_BURSTS / high) if lasting else 1.0
    return Bursts(round(high, 2), round(min(float(LONGEST_BURST_SECONDS), seconds), 1))


def invocations(
    cloudwatch: Any, *, endpoint: str, variants: Sequence[str], day: datetime, now: datetime
) -> list[float]:
    """The endpoint's requests of one day (UTC), as SageMaker counted them. `cloudwatch`: boto3's client.

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
        MetricDataQueries=[_query(number, endpoint, name) for number, name in enumerate(variants)],
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


def _query(number: int, endpoint: str, variant: str) -> dict[str, Any]:
    dimensions = {"EndpointName": endpoint, "VariantName": variant}
    metric = {
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocations",
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return {"Id": f"v{number}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}
