"""How a metric alarm looks at its metric: the query, the threshold, and M of N in words."""

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.cloudwatch.alarm import stamp
from servable_local.aws.cloudwatch.m_of_n import EXTRA_DATAPOINTS, State, Treatment, decide
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.cloudwatch.query import MetricQuery, alarm_query
from servable_local.aws.cloudwatch.statistics import percent_of

# Each comparison with a threshold, and how a state's reason says it.
_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
_NOT_EMULATED = (
    "EvaluationWindow",
    "WarmUpConfiguration",
    "EvaluationCriteria",
    "EvaluationInterval",
    "ThresholdMetricId",
    "ActionConfiguration",
)
_TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")
Datapoint = tuple[datetime, float]


class MetricAlarmRule:
    """Made from PutMetricAlarm's request. Raises ValueError, in words, for what it cannot be."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        for name in _NOT_EMULATED:
            if name in request:
                raise ValueError(f"{name} is not emulated by the local AWS.")
        self.query = alarm_query(request)
        comparison = request["ComparisonOperator"]
        if comparison not in _COMPARISONS:
            raise ValueError(f"The comparison {comparison} (anomaly detection) is not emulated.")
        self._compare, self._words = _COMPARISONS[comparison]
        if "Threshold" not in request:
            raise ValueError("The parameter Threshold is required.")
        self.threshold = float(request["Threshold"])
        self.n = int(request["EvaluationPeriods"])
        self.m = int(request.get("DatapointsToAlarm", self.n))
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

    @property
    def period_seconds(self) -> int:
        return self.query.period_seconds

    def evaluate(
        self, store: MetricStore, at: datetime, now: State
    ) -> tuple[State, str, str] | None:
        """The next state, its reason and the reason's data. None: not enough samples to say."""
        period = timedelta(seconds=self.period_seconds)
        count = self.n + EXTRA_DATAPOINTS
        starts = [at - period * (count - index) for index in range(count)]
        points = [(start, self.query.value(store, start, start + period)) for start in starts]
        real = [(start, value) for start, value in points if value is not None]
        if self.ignores_few_samples and real and self._few(store, real[-1][0]):
            return None
        state = decide(
            [
                None if value is None else self._compare(value, self.threshold)
                for _, value in points
            ],
            m=self.m,
            n=self.n,
            treatment=self.treatment,
            now=now,
        )
        return state, self._reason(real[-self.n :], state), self._data(at, real[-self.n :])

    def _few(self, store: MetricStore, start: datetime) -> bool:
        """Source: "Percentile-based CloudWatch alarms and low data samples"."""
        if not isinstance(self.query, MetricQuery):
            return False
        percent = percent_of(self.query.statistic)
        if percent is None or not 0 < percent < 100:
            return False
        share = percent / 100
        enough = 10 / (1 - share) if share >= 0.5 else 10 / share
        end = start + timedelta(seconds=self.period_seconds)
        return self.query.samples(store, start, end) < enough

    def _reason(self, real: Sequence[Datapoint], state: State) -> str:
        if not real:
            return (
                f"Threshold Crossed: no datapoints were received for {self.n} "
                f"period{'s' if self.n > 1 else ''} and {self.n} missing datapoints were treated "
                f"as [{self.treatment}]."
            )
        crossed = [
            (at, value)
            for at, value in real
            if self._compare(value, self.threshold) == (state == "ALARM")
        ]
        listed = ", ".join(f"{value} ({at:%d/%m/%y %H:%M:%S})" for at, value in reversed(crossed))
        verb = "were" if state == "ALARM" else "were not"
        return (
            f"Threshold Crossed: {len(crossed)} out of the last {self.n} datapoints [{listed}] "
            f"{verb} {self._words} the threshold ({self.threshold}) (minimum {self.m} "
            f"datapoint{'s' if self.m > 1 else ''} for OK -> ALARM transition)."
        )

    def _data(self, at: datetime, real: Sequence[Datapoint]) -> str:
        data: dict[str, Any] = {"version": "1.0", "queryDate": stamp(at)}
        if real:
            data["startDate"] = stamp(real[0][0])
        if isinstance(self.query, MetricQuery):
            data["statistic"] = self.query.statistic
        data |= {
            "period": self.period_seconds,
            "recentDatapoints": [value for _, value in real],
            "threshold": self.threshold,
            "evaluatedDatapoints": [
                {"timestamp": stamp(start), "value": value} for start, value in reversed(real)
            ],
        }
        return json.dumps(data)
