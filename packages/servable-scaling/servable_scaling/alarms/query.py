"""Queries of GetMetricData and of alarms: one metric's statistic, or math on several.

Metric math is for one point in time, with the operations that alarms and dashboards here use:
numbers, ids, + - * / ** and comparisons, IF, FILL, ABS, and MAX, MIN, SUM, AVG of a list
`[m1, m2]`. Anything else is rejected by name when the alarm is created or changed. If one of two
metrics has no data, arithmetic and comparisons use 0 for it; a metric without data and a number
give no data.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
(2026-11-23: "Basic arithmetic functions", "Comparison and logical operators",
"Using IF expressions")
"""

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

# Beyond this many different values percentiles are kept to 3 significant digits (0.5 %),
# so that an hour under load fits in memory.
_MOST_VALUES = 2000
_SIGNIFICANT_DIGITS = 3


@dataclass
class Samples:
    """The samples of a metric; percentiles are exact for up to 2,000 different values."""

    count: float = 0.0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    # {value: how often}. Empty where only a statistic set was sent: no percentiles then.
    values: Counter[float] = field(default_factory=Counter)
    coarse: bool = False

    def add(self, value: float, times: float = 1.0) -> None:
        self.add_set(count=times, total=value * times, least=value, most=value)
        # The count may be a fraction: Counter's type knows whole ones only.
        self.values[_round_value(value) if self.coarse else value] += times  # type: ignore[assignment]
        self._coarsen()

    def add_set(self, *, count: float, total: float, least: float, most: float) -> None:
        """Add a statistic set, as PutMetricData accepts it."""
        self.count += count
        self.total += total
        self.least = min(self.least, least)
        self.most = max(self.most, most)

    def merge(self, other: "Samples") -> None:
        self.add_set(count=other.count, total=other.total, least=other.least, most=other.most)
        self.values.update(other.values)
        self._coarsen(at_once=other.coarse)

    def compute_percentile(self, percent: float) -> float | None:
        """Return the smallest value that at least `percent` of all samples do not exceed.

        Returns None without samples, or if some of them came as a statistic set.
        """
        count = sum(self.values.values())
        if count == 0 or count < self.count:  # part of it came as a statistic set
            return None
        passed = 0.0
        for value in sorted(self.values):
            passed += self.values[value]
            if passed >= count * percent / 100:
                return value
        return self.most

    def _coarsen(self, *, at_once: bool = False) -> None:
        if self.coarse or not (at_once or len(self.values) > _MOST_VALUES):
            return
        exact, self.values, self.coarse = self.values, Counter(), True
        for value, times in exact.items():
            self.values[_round_value(value)] += times


def _round_value(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


_SIMPLE: dict[str, Callable[[Samples], float]] = {
    "SampleCount": lambda samples: samples.count,
    "Average": lambda samples: samples.total / samples.count,
    "Sum": lambda samples: samples.total,
    "Minimum": lambda samples: samples.least,
    "Maximum": lambda samples: samples.most,
}
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{0,10})?|100)$")


class UnknownStatisticError(ValueError):
    """The error of a statistic that is not emulated, such as a trimmed mean."""

    def __init__(self, name: str) -> None:
        known = ", ".join((*_SIMPLE, "p0 to p100"))
        super().__init__(f"The statistic {name} is not emulated; allowed: {known}.")


def check_statistic(name: str) -> None:
    """Raise `UnknownStatisticError` for a statistic that is not emulated."""
    if name not in _SIMPLE and not _PERCENTILE.match(name):
        raise UnknownStatisticError(name)


def parse_percent(name: str) -> float | None:
    """Return 99.0 for p99; None for a statistic that is not a percentile."""
    match = _PERCENTILE.match(name)
    return float(match.group(1)) if match else None


def compute_statistic(samples: Samples, name: str) -> float | None:
    """Return the statistic of the samples, or None without data. Raises `UnknownStatisticError`."""
    check_statistic(name)
    if samples.count == 0:
        return None
    percent = parse_percent(name)
    return _SIMPLE[name](samples) if percent is None else samples.compute_percentile(percent)


Values = Mapping[str, float | None]
_Term = Callable[[Values], float | None]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_OF_LISTS: dict[str, Callable[[Sequence[float]], float]] = {
    "MAX": max,
    "MIN": min,
    "SUM": sum,
    "AVG": lambda values: sum(values) / len(values),
}


class Expression:
    """A metric math expression, compiled once. Raises ValueError for a part that isn't emulated."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ids: set[str] = set()
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise ValueError(f"Cannot parse the expression {text}.") from None
        self._term = self._compile(tree)

    def compute_value(self, values: Values) -> float | None:
        """Return the expression's value; None without data, and for a division by zero."""
        return self._term(values)

    def _compile(self, node: ast.expr) -> _Term:
        match node:
            case ast.Constant(value=int() | float() as number):
                return lambda values: float(number)
            case ast.Name(id=name):
                self.ids.add(name)
                return lambda values: values.get(name)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._compile_function(operator.neg, inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                return self._compile_function(_BINARY[type(sign)], left, right)
            case ast.Compare(left=left, ops=[order], comparators=[right]) if (
                type(order) in _COMPARISONS
            ):
                return self._compile_function(_COMPARISONS[type(order)], left, right)
            case ast.Call(func=ast.Name(id="ABS"), args=[inner], keywords=[]):
                return self._compile_function(abs, inner)
            case ast.Call(func=ast.Name(id="FILL"), args=[_, _] as parts, keywords=[]):
                series, default = map(self._compile, parts)
                return lambda values: (
                    default(values) if (value := series(values)) is None else value
                )
            case ast.Call(func=ast.Name(id="IF"), args=[_, _] | [_, _, _] as parts, keywords=[]):
                test, yes, *no = map(self._compile, parts)
                return lambda values: _choose_branch(test(values), yes, no, values)
            case ast.Call(func=ast.Name(id=name), args=[ast.List(elts=parts)], keywords=[]) if (
                name in _OF_LISTS and parts
            ):
                return self._compile_aggregate(_OF_LISTS[name], parts)
        raise ValueError(f"{ast.unparse(node)} in the expression {self.text} is not emulated.")

    def _compile_aggregate(
        self, function: Callable[[Sequence[float]], float], parts: Sequence[ast.expr]
    ) -> _Term:
        terms = [self._compile(part) for part in parts]

        def compute_term(values: Values) -> float | None:
            numbers = [number for each in terms if (number := each(values)) is not None]
            return function(numbers) if numbers else None

        return compute_term

    def _compile_function(self, function: Callable[..., float], *parts: ast.expr) -> _Term:
        terms = [self._compile(part) for part in parts]
        # A time series, and not a number, has an id: it begins with a lowercase letter.
        of_metrics = [
            any(isinstance(node, ast.Name) and node.id[0].islower() for node in ast.walk(part))
            for part in parts
        ]

        def compute_term(values: Values) -> float | None:
            operands = [compiled(values) for compiled in terms]
            of_series = [operand for operand, yes in zip(operands, of_metrics, strict=True) if yes]
            if of_series and all(operand is None for operand in of_series):
                return None
            try:
                return float(function(*(operand or 0.0 for operand in operands)))
            except (ZeroDivisionError, OverflowError):
                return None

        return compute_term


def _choose_branch(
    test: float | None, yes: _Term, no: Sequence[_Term], values: Values
) -> float | None:
    if test:
        return yes(values) or 0.0  # no data counts as 0 in this branch, and is dropped in the other
    return no[0](values) if test is not None and no else None


@dataclass(frozen=True)
class Metric:
    """A metric. Dimensions are part of its name: another set of them is another metric."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    @classmethod
    def from_dimensions(cls, namespace: str, name: str, dimensions: Mapping[str, str]) -> "Metric":
        return cls(namespace, name, frozenset(dimensions.items()))

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> "Metric":
        """Read `Namespace`, `MetricName` and `Dimensions` from a request."""
        dimensions = {item["Name"]: item["Value"] for item in request.get("Dimensions", [])}
        return cls.from_dimensions(request["Namespace"], request["MetricName"], dimensions)


@dataclass(frozen=True)
class MetricQuery:
    """A statistic of one metric over one period."""

    metric: Metric
    statistic: str
    period_seconds: int
    unit: str | None = None

    def compute_value(self, values: "MetricValues", start: datetime, end: datetime) -> float | None:
        return values.compute_value(self, start, end)


class MetricValues(Protocol):
    """The source of measured values: the local AWS's samples, or a simulation's numbers."""

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        """Return the statistic over [start, end), or None if there is no data."""

    def count_samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        """Count the samples in [start, end): alarms may ignore percentiles of few samples."""


@dataclass(frozen=True)
class MathQuery:
    """An expression over other queries, by their ids."""

    expression: Expression
    of: "Mapping[str, MetricQuery | MathQuery]"

    @property
    def period_seconds(self) -> int:
        return max(self.of[name].period_seconds for name in self.expression.ids)

    def compute_value(self, values: MetricValues, start: datetime, end: datetime) -> float | None:
        return self.expression.compute_value(
            {name: self.of[name].compute_value(values, start, end) for name in self.expression.ids}
        )


Query = MetricQuery | MathQuery


def parse_queries(entries: Sequence[Mapping[str, Any]]) -> dict[str, Query]:
    """Return MetricDataQueries' queries by ID. Raises ValueError for what isn't emulated."""
    by_id: dict[str, Query] = {}
    for entry in entries:
        if "MetricStat" in entry:
            statistic = entry["MetricStat"]
            check_statistic(statistic["Stat"])
            by_id[entry["Id"]] = MetricQuery(
                Metric.from_request(statistic["Metric"]),
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
                names = ", ".join(sorted(unknown)) or "no metric ID"
                raise ValueError(f"The expression {query.expression.text} refers to {names}.")
    graph = {n: q.expression.ids for n, q in by_id.items() if isinstance(q, MathQuery)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        names = ", ".join(sorted({*cycle.args[1]}))
        raise ValueError(f"The expressions {names} refer to each other.") from None
    return by_id


def parse_alarm_query(request: Mapping[str, Any]) -> Query:
    """Return the query in PutMetricAlarm's request. Raises ValueError with a message."""
    if "Metrics" in request:
        by_id = parse_queries(request["Metrics"])
        returned = [entry["Id"] for entry in request["Metrics"] if entry.get("ReturnData", True)]
        if len(returned) != 1:
            raise ValueError(
                "Exactly one of Metrics must have ReturnData true, not "
                f"{', '.join(returned) or 'none'}."
            )
        query = by_id[returned[0]]
    else:
        name = request.get("ExtendedStatistic") or request.get("Statistic")
        if not name or "MetricName" not in request or "Namespace" not in request:
            either = "either Statistic or ExtendedStatistic"
            raise ValueError(f"MetricName, Namespace and {either} are required.")
        if "ExtendedStatistic" in request and "Statistic" in request:
            raise ValueError("Either Statistic or ExtendedStatistic must be given, not both.")
        check_statistic(name)
        seconds = int(request.get("Period", 0))
        query = MetricQuery(Metric.from_request(request), name, seconds, request.get("Unit"))
    seconds = query.period_seconds
    if seconds not in (10, 20, 30) and (seconds <= 0 or seconds % 60):
        raise ValueError(f"Period must be 10, 20, 30 or a multiple of 60 seconds, not {seconds}.")
    return query
