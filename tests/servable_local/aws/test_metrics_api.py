"""What CloudWatch's API of metrics refuses, and the times that it takes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.cloudwatch.api import naive
from tests.servable_local.aws.local_account import Account

NOON = datetime(2026, 11, 23, 12)
WINDOW = {"StartTime": NOON, "EndTime": NOON + timedelta(minutes=10)}


def test_a_time_of_any_protocol_is_the_same_time_on_the_clock() -> None:
    cases: list[Any] = [
        NOON,
        NOON.replace(tzinfo=UTC),
        datetime(2026, 11, 23, 13, tzinfo=timezone(timedelta(hours=1))),
        "2026-11-23T12:00:00",
        "2026-11-23T12:00:00Z",
        "2026-11-23T13:00:00+01:00",
        int(NOON.replace(tzinfo=UTC).timestamp()),
        NOON.replace(tzinfo=UTC).timestamp(),
    ]
    for moment in cases:
        assert naive(moment) == NOON
    assert naive(None) is None


@pytest.fixture
def cloudwatch(account: Account) -> Any:
    return account.client("cloudwatch")


def statistics(cloudwatch: Any, period_seconds: int = 60, **names: list[str]) -> Any:
    return cloudwatch.get_metric_statistics(
        Namespace="Own", MetricName="Calls", Period=period_seconds, **WINDOW, **names
    )["Datapoints"]


def put(cloudwatch: Any, value: float, at: datetime) -> None:
    datum = {"MetricName": "Calls", "Timestamp": at, "Value": value, "Unit": "Seconds"}
    cloudwatch.put_metric_data(Namespace="Own", MetricData=[datum])


def test_what_cannot_be_queried_is_refused(cloudwatch: Any) -> None:
    with pytest.raises(ClientError, match="Must specify either Statistics or ExtendedStatistics"):
        statistics(cloudwatch)
    with pytest.raises(ClientError, match="InvalidParameterValue.*Median"):
        statistics(cloudwatch, Statistics=["Median"])
    with pytest.raises(ClientError) as caught:
        cloudwatch.get_metric_data(
            MetricDataQueries=[{"Id": "e", "Expression": "FORECAST(absent)"}], **WINDOW
        )
    assert caught.value.response["Error"]["Code"] == "ValidationError"


def test_percentiles_stand_beside_the_other_statistics_of_their_period(cloudwatch: Any) -> None:
    put(cloudwatch, 3, NOON + timedelta(seconds=70))
    (point,) = statistics(cloudwatch, Statistics=["Sum"], ExtendedStatistics=["p50"])
    # botocore gives times a zone.
    assert (point.pop("Timestamp").replace(tzinfo=None), point) == (
        NOON + timedelta(minutes=1),
        {"Unit": "Seconds", "Sum": 3, "ExtendedStatistics": {"p50": 3}},
    )


def test_without_percentiles_a_point_has_no_place_for_them(cloudwatch: Any) -> None:
    put(cloudwatch, 3, NOON)
    (point,) = statistics(cloudwatch, Statistics=["Maximum"])
    assert "ExtendedStatistics" not in point


def test_a_sample_without_a_time_is_of_now(cloudwatch: Any, clock: Any) -> None:
    cloudwatch.put_metric_data(Namespace="Own", MetricData=[{"MetricName": "Now", "Value": 1}])
    answer = cloudwatch.get_metric_statistics(
        Namespace="Own",
        MetricName="Now",
        Period=60,
        Statistics=["Sum"],
        StartTime=clock.now() - timedelta(minutes=1),
        EndTime=clock.now() + timedelta(minutes=1),
    )
    assert len(answer["Datapoints"]) == 1


def test_points_of_data_begin_at_multiples_of_their_period(cloudwatch: Any) -> None:
    put(cloudwatch, 1, NOON + timedelta(minutes=6))
    metric = {"Namespace": "Own", "MetricName": "Calls"}
    query = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Sum"}}
    (result,) = cloudwatch.get_metric_data(MetricDataQueries=[query], **WINDOW)["MetricDataResults"]
    times = [moment.replace(tzinfo=None) for moment in result["Timestamps"]]
    assert (times, result["Label"]) == ([NOON + timedelta(minutes=5)], "Calls")


@pytest.mark.parametrize("seconds", [7, 90, 61])
def test_a_period_is_whole_minutes_or_a_short_one(cloudwatch: Any, seconds: int) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValue.*multiple of 60"):
        statistics(cloudwatch, seconds, Statistics=["Sum"])
    for accepted in (1, 5, 10, 20, 30, 60, 120):
        assert statistics(cloudwatch, accepted, Statistics=["Sum"]) == []
