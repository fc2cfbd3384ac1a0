"""Alarms as something looks at them minute by minute, and what of it moves a scaling policy."""

from collections import deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_scaling.alarms.m_of_n import EXTRA_DATAPOINTS, State
from servable_scaling.alarms.metric_alarm import Evaluation, MetricAlarmRule
from servable_scaling.alarms.query import MetricValues
from servable_scaling.target_scaler import Breach

_MINUTE_SECONDS = 60


def acts(before: State, state: State, at: datetime) -> bool:
    """Whether an alarm's scaling actions run: as it goes into ALARM, and then once a minute.

    Source (2026-11-22): https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-actions.html
    """
    return state == "ALARM" and (before != "ALARM" or at.second == 0)


def due(rule: MetricAlarmRule, at: datetime) -> bool:
    """Whether a rule is evaluated at `at`: every minute, a finer period's every 10 s."""
    return at.second == 0 or rule.period_seconds < _MINUTE_SECONDS


def breaches(
    request: Mapping[str, Any],
    rule: MetricAlarmRule,
    evaluation: Evaluation,
    policies: Container[str],
) -> Iterator[Breach]:
    """One for each policy that the alarm acts on, by what AlarmActions has."""
    if not request.get("ActionsEnabled", True):
        return
    for action in request.get("AlarmActions", ()):
        if action in policies:
            yield Breach(
                policy=action,
                alarm=request["AlarmName"],
                datapoints=[value for _, value in evaluation.datapoints],
                threshold=rule.threshold,
                upward=rule.upward,
            )


@dataclass
class WatchedAlarm:
    """One metric alarm and its state; it asks for each datapoint once. Raises ValueError in words.

    For what does not change afterwards: a simulation. `request` is PutMetricAlarm's, or the
    properties of AWS::CloudWatch::Alarm with its references resolved.
    """

    request: Mapping[str, Any]
    delay_seconds: int = 0
    state: State = "INSUFFICIENT_DATA"
    rule: MetricAlarmRule = field(init=False)
    evaluation: Evaluation | None = None
    # By the second within its period at which it looks: a period of 5 minutes has five of them.
    _recent: dict[int, deque[tuple[datetime, float | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = MetricAlarmRule(self.request)

    @property
    def name(self) -> str:
        return str(self.request["AlarmName"])

    def look(self, values: MetricValues, at: datetime) -> tuple[State, State]:
        """(state before, state now); the last evaluation is kept."""
        before = self.state
        seen = at - timedelta(seconds=self.delay_seconds)
        # Datapoints are of whole periods, whatever the delay is.
        seen -= timedelta(seconds=seen.second % min(self.rule.period_seconds, _MINUTE_SECONDS))
        evaluation = self.rule.judge(values, self._points(values, seen), at, before)
        if evaluation is not None:
            self.state, self.evaluation = evaluation.state, evaluation
        return before, self.state

    def _points(self, values: MetricValues, at: datetime) -> deque[tuple[datetime, float | None]]:
        seconds, count = self.rule.period_seconds, self.rule.n + EXTRA_DATAPOINTS
        period = timedelta(seconds=seconds)
        phase = (at.hour * 3_600 + at.minute * 60 + at.second) % seconds
        points = self._recent.setdefault(phase, deque(maxlen=count))
        first = at - period * count
        start = points[-1][0] + period if points and points[-1][0] >= first else first
        while start < at:
            points.append((start, self.rule.query.value(values, start, start + period)))
            start += period
        return points
