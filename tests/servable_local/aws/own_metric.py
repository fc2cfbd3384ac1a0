"""A metric of a test's own, an alarm on it, and what the alarm's history says."""

from typing import Any

from tests.servable_local.aws.watched_endpoint import Watched


def put_alarm(watched: Watched, name: str = "high", **more: Any) -> None:
    """Above 10 for 2 of 2 minutes, of a metric of our own."""
    asked = {
        "AlarmName": name,
        "Namespace": "Own",
        "MetricName": "Load",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 2,
        "Threshold": 10.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    watched.account.client("cloudwatch").put_metric_alarm(**(asked | more))


def minutes(watched: Watched, *values: float | None) -> None:
    for value in values:
        if value is not None:
            watched.account.client("cloudwatch").put_metric_data(
                Namespace="Own", MetricData=[{"MetricName": "Load", "Value": value}]
            )
        watched.clock.advance(minutes=1)


def history(watched: Watched, kind: str, name: str = "high") -> list[str]:
    """Summaries, oldest first."""
    found = watched.account.client("cloudwatch").describe_alarm_history(
        AlarmName=name, HistoryItemType=kind, ScanBy="TimestampAscending"
    )
    return [item["HistorySummary"] for item in found["AlarmHistoryItems"]]
