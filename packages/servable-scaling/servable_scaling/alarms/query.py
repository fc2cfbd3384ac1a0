"""Queries of GetMetricData and of alarms: one metric's statistic, or math on several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from servable_scaling.alarms.metric_math import Expression
from servable_scaling.alarms.statistics import check_statistic


@dataclass(frozen=True)
class Metric:
    """Dimensions are part of the name: another set of them is another metric."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, namespace: str, name: str, dimensions: Mapping[str, str]) -> "Metric":
        return cls(namespace, name, frozenset(dimensions.items()))

    @classmethod
    def named(cls, request: Mapping[str, Any]) -> "Metric":
        """Read `Namespace`, `MetricName` and `Dimensions`, as requests have them."""
        dimensions = {item["Name"]: item["Value"] for item in request.get("Dimensions", [])}
        return cls.of(request["Namespace"], request["MetricName"], dimensions)


@dataclass(frozen=True)
class MetricQuery:
    """A statistic of one metric over one period."""

    metric: Metric
    statistic: str
    period_seconds: int
    unit: str | None = None

    def value(self, values: "MetricValues", start: datetime, end: datetime) -> float | None:
        return values.value(self, start, end)


class MetricValues(Protocol):
    """Source of measured values: the local AWS's store of samples, or a simulation's numbers."""

    def value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        """The statistic over [start, end); None where there is no data."""

    def samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        """Count the samples in [start, end): percentiles of few may be left out."""


@dataclass(frozen=True)
class MathQuery:
    """An expression over other queries, by their ids."""

    expression: Expression
    of: "Mapping[str, MetricQuery | MathQuery]"

    @property
    def period_seconds(self) -> int:
        return max(self.of[name].period_seconds for name in self.expression.ids)

    def value(self, values: MetricValues, start: datetime, end: datetime) -> float | None:
        return self.expression.value(
            {name: self.of[name].value(values, start, end) for name in self.expression.ids}
        )


Query = MetricQuery | MathQuery


def queries(entries: Sequence[Mapping[str, Any]]) -> dict[str, Query]:
    """MetricDataQueries by id. Raises ValueError in words for what is not emulated."""
    by_id: dict[str, Query] = {}
    for entry in entries:
        if "MetricStat" in entry:
            statistic = entry["MetricStat"]
            check_statistic(statistic["Stat"])
            by_id[entry["Id"]] = MetricQuery(
                Metric.named(statistic["Metric"]),
                statistic["Stat"],
                int(statistic.get("Period", 60)),  # a tracking policy's metrics have none
                statistic.get("Unit"),
            )
        elif "Expression" in entry:
            by_id[entry["Id"]] = MathQuery(Expression(entry["Expression"]), by_id)
        else:
            raise ValueError(f"The query {entry['Id']} has neither MetricStat nor Expression.")
    for query in by_id.values():
        if isinstance(query, MathQuery):
            unknown = query.expression.ids - set(by_id)
            if unknown or not query.expression.ids:
                names = ", ".join(sorted(unknown)) or "no metric at all"
                raise ValueError(f"The expression {query.expression.text} refers to {names}.")
    for name in by_id:
        _refuse_circle(by_id, name, ())
    return by_id


def _refuse_circle(by_id: Mapping[str, Query], name: str, above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"The expressions {', '.join(above)} refer to each other.")
    query = by_id[name]
    for inner in query.expression.ids if isinstance(query, MathQuery) else ():
        _refuse_circle(by_id, inner, (*above, name))


def alarm_query(request: Mapping[str, Any]) -> Query:
    """The query in PutMetricAlarm's request. Raises ValueError with a message."""
    if "Metrics" in request:
        by_id = queries(request["Metrics"])
        returned = [entry["Id"] for entry in request["Metrics"] if entry.get("ReturnData", True)]
        if len(returned) != 1:
            raise ValueError(
                "Exactly one of Metrics must have ReturnData true; here it is "
                f"{', '.join(returned) or 'none'}."
            )
        query = by_id[returned[0]]
    else:
        name = request.get("ExtendedStatistic") or request.get("Statistic")
        if not name or "MetricName" not in request or "Namespace" not in request:
            raise ValueError(
                "MetricName, Namespace and either Statistic or ExtendedStatistic are required."
            )
        if "ExtendedStatistic" in request and "Statistic" in request:
            raise ValueError("Either Statistic or ExtendedStatistic must be given, not both.")
        check_statistic(name)
        seconds = int(request.get("Period", 0))
        query = MetricQuery(Metric.named(request), name, seconds, request.get("Unit"))
    seconds = query.period_seconds
    if seconds not in (10, 20, 30) and (seconds <= 0 or seconds % 60):
        raise ValueError(f"Period must be 10, 20, 30 or a multiple of 60 seconds, not {seconds}.")
    return query
