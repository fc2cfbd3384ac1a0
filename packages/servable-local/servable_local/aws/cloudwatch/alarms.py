"""Every alarm of one account and region: put, looked at when it is due, changed."""

import json
import threading
from datetime import datetime
from typing import Any

from servable_local.aws.clock import Clock
from servable_local.aws.cloudwatch.alarm import Alarm, Kind, announce
from servable_local.aws.cloudwatch.metric_store import KEPT, MetricStore
from servable_local.aws.loopback import Loopback
from servable_scaling.alarms.alarm_state import AlarmRule, Evaluation, MetricAlarmRule, State, stamp
from servable_scaling.autoscaling import acts, due


class AlarmRegister:
    """Metric alarms are evaluated every minute, finer ones every 10 s, composites after them."""

    def __init__(self, aws: Loopback, store: MetricStore, clock: Clock) -> None:
        self._aws = aws
        self._store = store
        self._clock = clock
        self._alarms: dict[str, Alarm] = {}
        self._rules: dict[str, MetricAlarmRule | AlarmRule] = {}
        # Whose scaling actions run at the last tick; and those set to ALARM by hand since.
        self.acting: list[tuple[Alarm, MetricAlarmRule, Evaluation]] = []
        self._set_off: set[str] = set()
        # The states that each composite alarm was last evaluated for.
        self._seen: dict[str, dict[str, State]] = {}
        # One change at a time: a tick and a SetAlarmState may come together.
        self._lock = threading.RLock()

    def put(self, kind: Kind, request: dict[str, Any], tags: dict[str, str]) -> None:
        """New, or over the one of that name, whose state stays. Raises ValueError."""
        name = request["AlarmName"]
        rule: MetricAlarmRule | AlarmRule = (
            MetricAlarmRule(request)
            if kind == "MetricAlarm"
            else AlarmRule(request.get("AlarmRule", ""))
        )
        at = self._clock.now()
        with self._lock:
            alarm = self._alarms.get(name)
            if isinstance(rule, AlarmRule):
                unknown = sorted(name for name in rule.names if _name(name) not in self._alarms)
                if unknown:
                    raise ValueError(
                        "Could not save the composite alarm as alarms "
                        f"[{', '.join(unknown)}] in the alarm rule do not exist"
                    )
            if alarm is not None and alarm.kind != kind:
                raise ValueError(f"{name} is already the name of a {alarm.kind}.")
            self._rules[name] = rule
            if alarm is not None:
                alarm.configure(request, at)
                return
            arn = f"arn:aws:cloudwatch:{self._aws.region}:{self._aws.account}:alarm:{name}"
            alarm = Alarm(kind, name, arn, request, at, tags=tags)
            alarm.record(at, "ConfigurationUpdate", f'Alarm "{name}" created', {"type": "Create"})
            self._alarms[name] = alarm
            if kind == "CompositeAlarm":
                self._evaluate_composites(at)

    def all(self) -> list[Alarm]:
        with self._lock:
            return list(self._alarms.values())

    def get(self, name: str) -> Alarm | None:
        return self._alarms.get(_name(name))

    def delete(self, names: list[str]) -> None:
        with self._lock:
            for name in names:
                self._alarms.pop(name, None)
                self._rules.pop(name, None)
                self._seen.pop(name, None)

    def set_state(self, name: str, state: State, reason: str, reason_data: str) -> None:
        """Holds until the next evaluation says otherwise. Raises KeyError."""
        with self._lock:
            self._become(self._alarms[name], state, reason, reason_data, self._clock.now())
            if state == "ALARM":
                self._set_off.add(name)
            self._evaluate_composites(self._clock.now())

    def tick(self, at: datetime) -> None:
        """Looks at every alarm that is due at `at`."""
        acting: list[tuple[Alarm, MetricAlarmRule, Evaluation]] = []
        for alarm in self.all():
            rule = self._rules.get(alarm.name)
            set_off = alarm.name in self._set_off
            if isinstance(rule, MetricAlarmRule) and (due(rule, at) or set_off):
                with self._lock:
                    self._set_off.discard(alarm.name)
                    before = alarm.state
                    result = rule.evaluate(self._store, at, before)
                    if result is None:
                        continue
                    if result.state != before and due(rule, at):
                        reason, data = rule.reason(result), rule.reason_data(result, self._store)
                        self._become(alarm, result.state, reason, data, at)
                    if set_off or acts(before, alarm.state, at):
                        acting.append((alarm, rule, result))
        self.acting = acting
        self._evaluate_composites(at)

    def _evaluate_composites(self, at: datetime) -> None:
        composites = [alarm for alarm in self.all() if alarm.kind == "CompositeAlarm"]
        for _ in composites:  # one may speak of another: as often as there are any
            for alarm in composites:
                rule = self._rules.get(alarm.name)
                assert isinstance(rule, AlarmRule)
                state: State = "ALARM" if rule.holds(self._state_of) else "OK"
                with self._lock:
                    self._become(alarm, state, *self._why(alarm, rule, state), at)

    def _why(self, composite: Alarm, rule: AlarmRule, state: State) -> tuple[str, str]:
        """StateReason and StateReasonData: the alarms that changed since it was last looked at.

        Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html
        (2026-11-28).
        """
        children = [child for name in sorted(rule.names) if (child := self.get(name))]
        before = self._seen.get(composite.name)
        self._seen[composite.name] = {child.name: child.state for child in children}
        changed = [child for child in children if child.state != (before or {}).get(child.name)]
        shown = [
            {
                "arn": child.arn,
                "state": {"value": child.state, "timestamp": stamp(child.transitioned)},
            }
            for child in changed
        ]
        did = "created" if before is None else "updated"
        reason = f"{composite.arn} was {did} and its alarm rule evaluates to {state}"
        if before is not None and changed:
            first = changed[0]
            when = f"{first.transitioned:%A %d %B, %Y %H:%M:%S} UTC"
            reason = f"{first.arn} transitioned to {first.state} at {when}"
        return reason, json.dumps({"triggeringAlarms": shown})

    def _state_of(self, name: str) -> str:
        alarm = self.get(name)
        return alarm.state if alarm else "INSUFFICIENT_DATA"

    def _become(
        self, alarm: Alarm, state: State, reason: str, reason_data: str, at: datetime
    ) -> None:
        if state == alarm.state:
            return
        before_reason = alarm.reason
        before: State = alarm.change(state, reason, reason_data, at)
        announce(self._aws, alarm, before, before_reason, at)


def _name(name_or_arn: str) -> str:
    return name_or_arn.split(":alarm:", 1)[-1]


class CloudWatch:
    """Metrics and alarms of one account and region, on the clock that all of them have."""

    def __init__(self, aws: Loopback, clock: Clock) -> None:
        self.clock = clock
        self.metrics = MetricStore()
        self.alarms = AlarmRegister(aws, self.metrics, clock)

    def tick(self, at: datetime) -> None:
        self.alarms.tick(at)
        if at.minute % 10 == 0 and at.second == 0:
            self.metrics.forget(at - KEPT)
