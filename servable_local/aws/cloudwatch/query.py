"""What GetMetricData and an alarm ask: one metric's statistic, or math on several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from servable_local.aws.cloudwatch import statistic as statistics
from servable_local.aws.cloudwatch.metric_math import Expression
from servable_local.aws.cloudwatch.metric_store import Metric, MetricStore


@dataclass(frozen=True)
class MetricQuery:
    """A statistic of one metric over one period."""

    metric: Metric
    statistic: str
    period_seconds: int
    unit: str | None = None

    def value(self, store: MetricStore, start: datetime, end: datetime) -> float | None:
        return statistics.statistic(
            store.between(self.metric, start, end, self.unit), self.statistic
        )

    def samples(self, store: MetricStore, start: datetime, end: datetime) -> float:
        return store.between(self.metric, start, end, self.unit).count


@dataclass(frozen=True)
class MathQuery:
    """An expression over other queries, by their ids."""

    expression: Expression
    of: "Mapping[str, MetricQuery | MathQuery]"

    @property
    def period_seconds(self) -> int:
        return max(self.of[name].period_seconds for name in self.expression.ids)

    def value(self, store: MetricStore, start: datetime, end: datetime) -> float | None:
        return self.expression.value(
            {name: self.of[name].value(store, start, end) for name in self.expression.ids}
        )


Query = MetricQuery | MathQuery


def dimensions(given: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in given}


def queries(given: Sequence[Mapping[str, Any]]) -> dict[str, Query]:
    """MetricDataQueries by id. Raises ValueError in words for what is not emulated."""
    found: dict[str, Query] = {}
    for one in given:
        if "MetricStat" in one:
            asked = one["MetricStat"]
            metric = asked["Metric"]
            statistics.check(asked["Stat"])
            found[one["Id"]] = MetricQuery(
                Metric.of(
                    metric["Namespace"],
                    metric["MetricName"],
                    dimensions(metric.get("Dimensions", [])),
                ),
                asked["Stat"],
                int(asked["Period"]),
                asked.get("Unit"),
            )
        elif "Expression" in one:
            found[one["Id"]] = MathQuery(Expression(one["Expression"]), found)
        else:
            raise ValueError(f"The query {one['Id']} has neither MetricStat nor Expression.")
    for query in found.values():
        if isinstance(query, MathQuery):
            unknown = query.expression.ids - set(found)
            if unknown or not query.expression.ids:
                names = ", ".join(sorted(unknown)) or "no metric at all"
                raise ValueError(f"The expression {query.expression.text} refers to {names}.")
    _refuse_circles(found)
    return found


def _refuse_circles(found: Mapping[str, Query]) -> None:
    def walk(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"The expressions {', '.join(above)} refer to each other.")
        query = found[name]
        if isinstance(query, MathQuery):
            for inner in query.expression.ids:
                walk(inner, (*above, name))

    for name in found:
        walk(name, ())
