"""What a metric alarm looks at: a metric by its name, or the one query that returns data."""

from collections.abc import Mapping
from typing import Any

from servable_local.aws.cloudwatch import statistic as statistics
from servable_local.aws.cloudwatch.metric_store import Metric
from servable_local.aws.cloudwatch.query import MetricQuery, Query, dimensions, queries


def alarm_query(request: Mapping[str, Any]) -> Query:
    """Of PutMetricAlarm's request. Raises ValueError in words."""
    if "Metrics" in request:
        found = queries(request["Metrics"])
        returned = [one["Id"] for one in request["Metrics"] if one.get("ReturnData", True)]
        if len(returned) != 1:
            raise ValueError(
                "Exactly one of Metrics must have ReturnData true; here it is "
                f"{', '.join(returned) or 'none'}."
            )
        query = found[returned[0]]
    else:
        name = request.get("ExtendedStatistic") or request.get("Statistic")
        if not name or "MetricName" not in request or "Namespace" not in request:
            raise ValueError(
                "MetricName, Namespace and either Statistic or ExtendedStatistic are required."
            )
        if "ExtendedStatistic" in request and "Statistic" in request:
            raise ValueError("Either Statistic or ExtendedStatistic must be given, not both.")
        statistics.check(name)
        query = MetricQuery(
            Metric.of(
                request["Namespace"],
                request["MetricName"],
                dimensions(request.get("Dimensions", [])),
            ),
            name,
            int(request.get("Period", 0)),
            request.get("Unit"),
        )
    seconds = query.period_seconds
    if seconds not in (10, 20, 30) and (seconds <= 0 or seconds % 60):
        raise ValueError(f"Period must be 10, 20, 30 or a multiple of 60 seconds, not {seconds}.")
    return query
