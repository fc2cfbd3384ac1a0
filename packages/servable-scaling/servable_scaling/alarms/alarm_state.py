"""The state of an alarm: M breaching datapoints of N of a metric, or a composite alarm's rule.

Pure. The tests repeat the tables of these sources: "Configuring how CloudWatch alarms
treat missing data" and "Avoiding premature transitions to alarm state",
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html;
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from servable_scaling.alarms.query import (
    MetricQuery,
    MetricValues,
    parse_alarm_query,
    parse_percent,
)

StateOf = Callable[[str], str]
_TOKEN = re.compile(
    r"""\s*(?:(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s()"]+))\s*\)"""
    r"""|(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<bracket>[()]))""",
    re.IGNORECASE,
)


class AlarmRule:
    """A composite alarm's rule, parsed once. `names` are its alarms, by name or ARN as written.

    Raises ValueError for a rule that cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        # Each test of a state, by its placeholder in the rule that Python parses.
        self._tests: dict[str, tuple[str, str]] = {}
        # CloudWatch's words bind as Python's do: NOT before AND before OR.
        words = " ".join(self._translate_words(text))
        try:
            self._tree = ast.parse(words, mode="eval").body
        except SyntaxError:
            raise ValueError(f"AlarmRule: cannot be parsed: {text}") from None
        if any(isinstance(node, ast.Call | ast.Tuple) for node in ast.walk(self._tree)):
            raise ValueError(f"AlarmRule: cannot be parsed: {text}")
        self.names = {name for _, name in self._tests.values()}

    def is_met(self, state_of: StateOf) -> bool:
        return self._evaluate_node(self._tree, state_of)

    def _translate_words(self, text: str) -> Iterator[str]:
        at = 0
        while text[at:].strip():
            if not (match := _TOKEN.match(text, at)):
                raise ValueError(f"AlarmRule: cannot be parsed at: {text[at:].strip()}")
            at = match.end()
            if state := match["state"]:
                name = match["bare"] or match["quoted"].replace('\\"', '"')
                stand_in = f"_{len(self._tests)}"
                self._tests[stand_in] = (state.upper(), name)
                yield stand_in
            else:
                word = (match["word"] or match["bracket"]).lower()
                yield word.title() if word in ("true", "false") else word

    def _evaluate_node(self, node: ast.expr, state_of: StateOf) -> bool:
        match node:
            case ast.Name(id=stand_in):
                state, name = self._tests[stand_in]
                return state_of(name) == state
            case ast.Constant(value=bool() as truth):
                return truth
            case ast.UnaryOp(operand=inner):
                return not self._evaluate_node(inner, state_of)
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._evaluate_node(part, state_of) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._evaluate_node(part, state_of) for part in parts)
        raise ValueError(f"AlarmRule: cannot be parsed: {self.text}")


State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Treatment = Literal["missing", "ignore", "breaching", "notBreaching"]
# CloudWatch reads more datapoints than it needs, so that a few gaps don't matter. AWS's example has
# 5 datapoints for 3 evaluation periods, without a formula.
EXTRA_DATAPOINTS = 2


def decide_state(
    breaching: Sequence[bool | None], *, m: int, n: int, treatment: Treatment, now: State
) -> State:
    """Return an alarm's next state. `breaching`: N datapoints and the extra ones, oldest first."""
    real = [breach for breach in breaching if breach is not None]
    if not real:
        empty: dict[str, State] = {"missing": "INSUFFICIENT_DATA", "ignore": now}
        return empty.get(treatment, "ALARM" if treatment == "breaching" else "OK")
    if len(real) < n and treatment in ("missing", "ignore") and all(real):
        # All that is there breaches; premature if the oldest of the last N is as old as M.
        ages = [age for age, breach in enumerate(reversed(breaching[-n:]), start=1) if breach]
        if max(ages, default=0) >= m:
            # With `ignore`, M breaching datapoints are an alarm. This is inferred: AWS's tables have no
            # such row.
            return "ALARM" if treatment == "missing" or len(real) >= m else now
    filled = max(0, n - len(real)) if treatment == "breaching" else 0
    return "ALARM" if sum(real[-n:]) + filled >= m else "OK"


# Each comparison with a threshold, and how a state's reason says it.
_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
_NOT_EMULATED = (
    "EvaluationWindow", "WarmUpConfiguration", "EvaluationCriteria", "EvaluationInterval",
    "ThresholdMetricId", "ActionConfiguration",
)  # fmt: skip
_TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")
_SHOWN_TREATMENTS = {"breaching": "Breaching", "notBreaching": "NonBreaching"}
Datapoint = tuple[datetime, float]


def format_timestamp(moment: datetime) -> str:
    """Format a time as CloudWatch writes it inside its JSON."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}+0000"


@dataclass(frozen=True)
class Evaluation:
    """The result of one evaluation: the next state, and the last N datapoints, oldest first."""

    at: datetime
    state: State
    datapoints: Sequence[Datapoint]


class MetricAlarmRule:
    """The rule of a PutMetricAlarm request. Raises ValueError with a message if it is invalid."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        if names := [name for name in _NOT_EMULATED if name in request]:
            raise ValueError(f"{names[0]} is not emulated by the local AWS.")
        self.query = parse_alarm_query(request)
        comparison = request["ComparisonOperator"]
        if comparison not in _COMPARISONS:
            raise ValueError(f"The comparison {comparison} (anomaly detection) is not emulated.")
        self._compare, self._words = _COMPARISONS[comparison]
        self.upward = comparison.startswith("Greater")
        if "Threshold" not in request:
            raise ValueError("The parameter Threshold is required.")
        self.threshold = float(request["Threshold"])
        self.n = int(request["EvaluationPeriods"])
        self.m = int(request.get("DatapointsToAlarm", self.n))
        self._says_of_how_many = self.n > 1 or "DatapointsToAlarm" in request
        if not 1 <= self.m <= self.n:
            raise ValueError(
                "DatapointsToAlarm must be at least 1 and at most EvaluationPeriods, "
                f"not {self.m} of {self.n}."
            )
        self.treatment: Treatment = request.get("TreatMissingData", "missing")
        if self.treatment not in _TREATMENTS:
            raise ValueError(
                f"Option {self.treatment} is not supported. Supported options for parameter "
                f"TreatMissingData are {', '.join(_TREATMENTS)}."
            )
        self.ignores_few_samples = request.get("EvaluateLowSampleCountPercentile") == "ignore"
        self.period_seconds = self.query.period_seconds

    def evaluate(self, values: MetricValues, at: datetime, now: State) -> Evaluation | None:
        """Return the evaluation at `at`, or None if there are too few samples to decide."""
        period = timedelta(seconds=self.period_seconds)
        count = self.n + EXTRA_DATAPOINTS
        starts = [at - period * (count - index) for index in range(count)]
        points = [
            (start, self.query.compute_value(values, start, start + period)) for start in starts
        ]
        return self.evaluate_points(values, points, at, now)

    def evaluate_points(
        self,
        values: MetricValues,
        points: Sequence[tuple[datetime, float | None]],
        at: datetime,
        now: State,
    ) -> Evaluation | None:
        """Evaluate the given datapoints as `evaluate` does. They are N and the extra ones, oldest first."""
        real = [(start, value) for start, value in points if value is not None]
        if self.ignores_few_samples and real and self._has_few_samples(values, real[-1][0]):
            return None
        compare, threshold = self._compare, self.threshold
        breaching = [None if value is None else compare(value, threshold) for _, value in points]
        state = decide_state(breaching, m=self.m, n=self.n, treatment=self.treatment, now=now)
        return Evaluation(at, state, real[-self.n :])

    def _has_few_samples(self, values: MetricValues, start: datetime) -> bool:
        """Return whether the percentile has fewer samples than CloudWatch's guide requires."""
        if not isinstance(self.query, MetricQuery):
            return False
        percent = parse_percent(self.query.statistic)
        if percent is None or not 0 < percent < 100:
            return False
        enough = 10 / min(percent / 100, 1 - percent / 100)
        end = start + timedelta(seconds=self.period_seconds)
        return values.count_samples(self.query, start, end) < enough

    def format_reason(self, evaluation: Evaluation) -> str:
        """Return the StateReason as CloudWatch writes it."""
        real, state = evaluation.datapoints, evaluation.state
        if not real:
            return (
                f"Threshold Crossed: no datapoints were received for {self.n} "
                f"period{'s' if self.n > 1 else ''} and {self.n} missing datapoints were treated "
                f"as [{_SHOWN_TREATMENTS.get(self.treatment, self.treatment)}]."
            )
        crossed = [
            (at, value)
            for at, value in real
            if self._compare(value, self.threshold) == (state == "ALARM")
        ]
        listed = ", ".join(f"{value} ({at:%d/%m/%y %H:%M:%S})" for at, value in reversed(crossed))
        count, verb, minimum = "1 datapoint", "was", ""
        if self._says_of_how_many:
            count, verb = f"{len(crossed)} out of the last {self.n} datapoints", "were"
            plural = "s" if self.m > 1 else ""
            minimum = f" (minimum {self.m} datapoint{plural} for OK -> ALARM transition)"
        return (
            f"Threshold Crossed: {count} [{listed}] {verb}{'' if state == 'ALARM' else ' not'} "
            f"{self._words} the threshold ({self.threshold}){minimum}."
        )

    def format_reason_data(self, evaluation: Evaluation, values: MetricValues) -> str:
        """Return the StateReasonData as CloudWatch writes it."""
        real = evaluation.datapoints
        period = timedelta(seconds=self.period_seconds)
        data: dict[str, Any] = {"version": "1.0", "queryDate": format_timestamp(evaluation.at)}
        if real:
            data["startDate"] = format_timestamp(real[0][0])
        metric = self.query if isinstance(self.query, MetricQuery) else None
        if metric is not None:
            data |= {"unit": metric.unit} if metric.unit else {}
            data["statistic"] = metric.statistic
        evaluated: list[dict[str, Any]] = []
        for start, value in reversed(real):
            point: dict[str, Any] = {"timestamp": format_timestamp(start)}
            if metric is not None:
                count = values.count_samples(metric, start, start + period)
                point["sampleCount"] = float(count)
            evaluated.append(point | {"value": value})
        missing = (evaluation.at - ago * period for ago in range(1, self.n + 1))
        data |= {
            "period": self.period_seconds,
            "recentDatapoints": [value for _, value in real],
            "threshold": self.threshold,
            "evaluatedDatapoints": evaluated
            or [{"timestamp": format_timestamp(start)} for start in missing],
        }
        return json.dumps(data)
