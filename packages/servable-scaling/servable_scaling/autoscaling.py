"""Targets, policies, schedules and alarms of a deployment, advanced together: what a simulation holds.

    scaling = Autoscaling(
        targets={"Target": {...}}, policies={"Policy": {...}}, alarms=[...], created=datetime(2026, 11, 23)
    )
    for minute in minutes:
        step = scaling.advance(minute, values, {"endpoint/ranker/variant/a": ScaledResource(2, 2)})
        step.desired                 # {"endpoint/ranker/variant/a": 4}: what to set now
        step.activities              # begun or left out in this minute; their state follows later
        step.changed                 # alarms that went from one state to another

`values` answers what the alarms ask about the minutes that are over (`MetricValues`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from servable_scaling.activities import ScalingActivity
from servable_scaling.alarms.m_of_n import State
from servable_scaling.alarms.query import MetricValues
from servable_scaling.scalable_target import (
    ScaledTarget,
    ScalingPropertyError,
    ScheduledAction,
    TargetTracking,
    scaling_policy,
)
from servable_scaling.target_scaler import Breach, ScaledResource, TargetScaler
from servable_scaling.target_tracking import alarm_requests
from servable_scaling.watched_alarm import WatchedAlarm, acts, breaches, due

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class AlarmChange:
    """An alarm went from one state to another. `actions`: what it names for its new state."""

    at: datetime
    alarm: str
    before: State
    state: State
    actions: tuple[str, ...]


@dataclass
class ScalingMinute:
    """Result of one minute: new capacities, scaling activities and alarms that changed state."""

    desired: dict[str, int] = field(default_factory=dict)
    activities: list[ScalingActivity] = field(default_factory=list)
    changed: list[AlarmChange] = field(default_factory=list)


class Autoscaling:
    """`targets` and `policies` by the names with which others refer to them: logical ids, or ARNs.

    A policy names its target by ScalingTargetId or by ResourceId and ScalableDimension; an alarm
    names policies in AlarmActions. References must be resolved to these names. `created`: naive UTC.
    Raises `ScalingPropertyError`, `ScheduleError`, or ValueError in words for an alarm.
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
        self._delay_seconds = metric_delay_seconds
        self.scalers: dict[str, TargetScaler] = {}
        self.alarms: dict[str, WatchedAlarm] = {}
        # By what an alarm's actions name.
        self._resources: dict[str, str] = {}
        by_name: dict[str, str] = {}
        for name, properties in targets.items():
            target = ScaledTarget.of(properties)
            actions = [ScheduledAction.of(each) for each in properties.get("ScheduledActions", ())]
            self.scalers[target.resource_id] = TargetScaler(
                target, created=created, actions=actions
            )
            by_name[name] = target.resource_id
        for name, properties in policies.items():
            resource = properties.get("ResourceId") or by_name.get(
                str(properties.get("ScalingTargetId"))
            )
            if resource not in self.scalers:
                raise ScalingPropertyError(f"Policy {name} names no target that is given.")
            policy, scaler = scaling_policy(properties), self.scalers[str(resource)]
            scaler.policies[name] = policy
            self._resources[name] = str(resource)
            if isinstance(policy, TargetTracking):
                sides = alarm_requests(policy, scaler.target, suffix=policy.name)
                for side in sides.values():
                    self._watch({**side, "AlarmActions": [name]})
        for request in alarms:
            self._watch(request)

    def advance(
        self, at: datetime, values: MetricValues, resources: Mapping[str, ScaledResource]
    ) -> ScalingMinute:
        """The minute (or 10 s) that begins at `at`. `resources`: {ResourceId: as it is now}."""
        step = ScalingMinute()
        acting: dict[str, list[Breach]] = {}
        for alarm in self.alarms.values():
            if not due(alarm.rule, at):
                continue
            before, state = alarm.look(values, at)
            if before != state:
                kinds = {"ALARM": "AlarmActions", "OK": "OKActions"}
                enabled = alarm.request.get("ActionsEnabled", True)
                named = alarm.request.get(kinds.get(state, "InsufficientDataActions"), ())
                actions = tuple(named) if enabled else ()
                step.changed.append(AlarmChange(at, alarm.name, before, state, actions))
            if acts(before, state, at) and alarm.evaluation is not None:
                for breach in breaches(
                    alarm.request, alarm.rule, alarm.evaluation, self._resources
                ):
                    acting.setdefault(self._resources[breach.policy], []).append(breach)
        for resource_id, scaler in self.scalers.items():
            resource = resources[resource_id]
            decision = scaler.advance(at, resource, acting.get(resource_id, ()))
            step.activities += decision.activities
            if decision.desired is not None:
                step.desired[resource_id] = decision.desired
        return step

    def _watch(self, request: Properties) -> None:
        alarm = WatchedAlarm(request, delay_seconds=self._delay_seconds)
        self.alarms[alarm.name] = alarm
