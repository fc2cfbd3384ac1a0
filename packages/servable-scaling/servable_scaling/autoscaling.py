"""Targets, policies, schedules and alarms of a deployment, advanced together in a simulation.

    scaling = Autoscaling(
        targets={"Target": {...}}, policies={"Policy": {...}}, alarms=[...], created=datetime(2026, 11, 23)
    )
    for minute in minutes:
        step = scaling.advance(minute, values, {"endpoint/ranker/variant/a": ScaledResource(2, 2)})
        step.desired                 # {"endpoint/ranker/variant/a": 4}: what to set now
        step.activities              # begun or left out in this minute; their state follows later
        step.changed                 # alarms that went from one state to another

`values` provides the alarms' metrics for the minutes that are over (`MetricValues`).
"""

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_scaling.alarms.alarm_state import EXTRA_DATAPOINTS, Evaluation, MetricAlarmRule, State
from servable_scaling.alarms.query import MetricValues
from servable_scaling.scalable_target import (
    Properties,
    ScaledTarget,
    ScalingActivity,
    ScalingPropertyError,
    ScheduledAction,
    TargetTracking,
    parse_scaling_policy,
)
from servable_scaling.scaling_policies import build_alarm_requests
from servable_scaling.target_scaler import Breach, ScaledResource, TargetScaler

_MINUTE_SECONDS = 60


def is_acting(before: State, state: State, at: datetime) -> bool:
    """Return whether an alarm's scaling actions run.

    They run when it goes into ALARM, and then once a minute. Source (2026-11-22):
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-actions.html
    """
    return state == "ALARM" and (before != "ALARM" or at.second == 0)


def is_due(rule: MetricAlarmRule, at: datetime) -> bool:
    """Return whether a rule is evaluated at `at`: each minute, or every 10 s for a shorter period."""
    return at.second == 0 or rule.period_seconds < _MINUTE_SECONDS


def find_breaches(
    request: Mapping[str, Any],
    rule: MetricAlarmRule,
    evaluation: Evaluation,
    policies: Container[str],
) -> Iterator[Breach]:
    """Yield a breach for each of the policies in the alarm's AlarmActions, unless it is disabled."""
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
    """A metric alarm and its state, which reads each datapoint once, as in a simulation.

    `request`: PutMetricAlarm's, or the properties of AWS::CloudWatch::Alarm with its references
    resolved. Raises ValueError with a message.
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

    def update_state(self, values: MetricValues, at: datetime) -> tuple[State, State]:
        """Evaluate the alarm and return (state before, state now). The last evaluation is kept."""
        before = self.state
        seen = at - timedelta(seconds=self.delay_seconds)
        # Datapoints are of whole periods, whatever the delay is.
        seen -= timedelta(seconds=seen.second % min(self.rule.period_seconds, _MINUTE_SECONDS))
        points = self._update_points(values, seen)
        evaluation = self.rule.evaluate_points(values, points, at, before)
        if evaluation is not None:
            self.state, self.evaluation = evaluation.state, evaluation
        return before, self.state

    def _update_points(
        self, values: MetricValues, at: datetime
    ) -> deque[tuple[datetime, float | None]]:
        seconds, count = self.rule.period_seconds, self.rule.n + EXTRA_DATAPOINTS
        period = timedelta(seconds=seconds)
        phase = (at.hour * 3_600 + at.minute * 60 + at.second) % seconds
        points = self._recent.setdefault(phase, deque(maxlen=count))
        first = at - period * count
        start = points[-1][0] + period if points and points[-1][0] >= first else first
        while start < at:
            points.append((start, self.rule.query.compute_value(values, start, start + period)))
            start += period
        return points


@dataclass(frozen=True)
class AlarmChange:
    """An alarm's change of state. `actions`: the alarm's actions for its new state."""

    at: datetime
    alarm: str
    before: State
    state: State
    actions: tuple[str, ...]


@dataclass
class ScalingMinute:
    """The result of one minute: new capacities, scaling activities and changed alarms."""

    desired: dict[str, int] = field(default_factory=dict)
    activities: list[ScalingActivity] = field(default_factory=list)
    changed: list[AlarmChange] = field(default_factory=list)


class Autoscaling:
    """The autoscaling of a deployment, simulated minute by minute.

    `targets` and `policies` are by the names with which others refer to them: logical IDs, or
    ARNs. A policy names its target by ScalingTargetId or by ResourceId and ScalableDimension; an
    alarm names policies in AlarmActions. References must be resolved to these names. `created`:
    naive UTC. Raises `ScalingPropertyError`, `ScheduleError`, or ValueError with a message for an
    alarm.
    """

    def __init__(
        self,
        *,
        targets: Mapping[str, Properties],
        policies: Mapping[str, Properties] = {},
        alarms: Sequence[Properties] = (),
        created: datetime,
        # Chosen: seconds until an alarm can see a datapoint.
        metric_delay_seconds: int = 0,
    ) -> None:
        self.scalers: dict[str, TargetScaler] = {}
        self.alarms: dict[str, WatchedAlarm] = {}
        # By what an alarm's actions name.
        self._resources: dict[str, str] = {}
        by_name: dict[str, str] = {}
        for name, properties in targets.items():
            target = ScaledTarget.from_properties(properties)
            actions = [
                ScheduledAction.from_properties(each)
                for each in properties.get("ScheduledActions", ())
            ]
            scaler = TargetScaler(target, created=created, actions=actions)
            self.scalers[target.resource_id] = scaler
            by_name[name] = target.resource_id
        requests: list[Properties] = []
        for name, properties in policies.items():
            named = by_name.get(str(properties.get("ScalingTargetId")))
            resource = properties.get("ResourceId") or named
            if resource not in self.scalers:
                raise ScalingPropertyError(f"Policy {name} names no target that is registered.")
            policy, scaler = parse_scaling_policy(properties), self.scalers[str(resource)]
            scaler.policies[name] = policy
            self._resources[name] = str(resource)
            if isinstance(policy, TargetTracking):
                sides = build_alarm_requests(policy, scaler.target, suffix=policy.name)
                requests += [{**side, "AlarmActions": [name]} for side in sides.values()]
        for request in (*requests, *alarms):
            alarm = WatchedAlarm(request, delay_seconds=metric_delay_seconds)
            self.alarms[alarm.name] = alarm

    def advance(
        self, at: datetime, values: MetricValues, resources: Mapping[str, ScaledResource]
    ) -> ScalingMinute:
        """Simulate the minute (or 10 s) that begins at `at`. `resources`: states by ResourceId."""
        step = ScalingMinute()
        acting: dict[str, list[Breach]] = {}
        for alarm in self.alarms.values():
            if not is_due(alarm.rule, at):
                continue
            before, state = alarm.update_state(values, at)
            if before != state:
                kinds = {"ALARM": "AlarmActions", "OK": "OKActions"}
                enabled = alarm.request.get("ActionsEnabled", True)
                named = alarm.request.get(kinds.get(state, "InsufficientDataActions"), ())
                actions = tuple(named) if enabled else ()
                step.changed.append(AlarmChange(at, alarm.name, before, state, actions))
            if is_acting(before, state, at) and alarm.evaluation is not None:
                for breach in find_breaches(
                    alarm.request, alarm.rule, alarm.evaluation, self._resources
                ):
                    acting.setdefault(self._resources[breach.policy], []).append(breach)
        for resource_id, scaler in self.scalers.items():
            decision = scaler.advance(at, resources[resource_id], acting.get(resource_id, ()))
            step.activities += decision.activities
            if decision.desired is not None:
                step.desired[resource_id] = decision.desired
        return step
