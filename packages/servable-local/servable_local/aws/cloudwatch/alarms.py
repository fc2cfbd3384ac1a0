"""The alarms of one account and Region: state, history, and time of evaluation."""

import functools
import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import botocore.loaders

from servable_local.aws.clock import Clock
from servable_local.aws.cloudwatch.metric_store import KEPT, MetricStore
from servable_local.aws.loopback import Loopback
from servable_scaling.alarms.alarm_state import (
    AlarmRule,
    Evaluation,
    MetricAlarmRule,
    State,
    format_timestamp,
)
from servable_scaling.autoscaling import is_acting, is_due

Kind = Literal["MetricAlarm", "CompositeAlarm"]
# AWS keeps 30 days; here a long-running alarm must not fill the memory.
_LONGEST_HISTORY = 1000
CREATED = "Unchecked: Initial alarm creation"
ACTIONS = {"ALARM": "AlarmActions", "OK": "OKActions",
           "INSUFFICIENT_DATA": "InsufficientDataActions"}  # fmt: skip
_LONGEST_SUBJECT = 100  # SNS's limit
_TRIGGER = ("MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Unit", "Period",
            "EvaluationPeriods", "ComparisonOperator", "Threshold", "TreatMissingData",
            "EvaluateLowSampleCountPercentile", "Metrics")  # fmt: skip


@dataclass
class Alarm:
    """An alarm. `request` is that of PutMetricAlarm or PutCompositeAlarm, without its tags."""

    kind: Kind
    name: str
    arn: str
    request: dict[str, Any]
    configured: datetime
    rule: MetricAlarmRule | AlarmRule
    state: State = "INSUFFICIENT_DATA"
    reason: str = CREATED
    reason_data: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    set_off: bool = False
    """Whether it was set to ALARM by hand since the last tick."""
    seen: dict[str, State] | None = None
    """The states that a composite alarm was last evaluated for."""
    transitioned: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.transitioned = self.configured

    @property
    def actions(self) -> list[str]:
        """Return the actions of all states."""
        return [action for kind in ACTIONS.values() for action in self.request.get(kind, [])]

    def change_state(self, state: State, reason: str, reason_data: str, at: datetime) -> None:
        data = {
            "version": "1.0",
            "oldState": _format_state(self.state, self.reason, self.reason_data),
            "newState": _format_state(state, reason, reason_data),
        }
        summary = f"Alarm updated from {self.state} to {state}"
        self.state, self.reason, self.reason_data = state, reason, reason_data
        self.transitioned = at
        self.add_history_item(at, "StateUpdate", summary, data)

    def add_history_item(
        self, at: datetime, kind: str, summary: str, data: Mapping[str, Any]
    ) -> None:
        item = {"HistoryItemType": kind, "HistorySummary": summary, "HistoryData": json.dumps(data)}
        self.history.append(
            {"AlarmName": self.name, "AlarmType": self.kind, "Timestamp": at, **item}
        )
        del self.history[:-_LONGEST_HISTORY]

    def describe(self) -> dict[str, Any]:
        """Return the alarm in the format of DescribeAlarms."""
        shown = {
            "ActionsEnabled": True,
            **{kind: [] for kind in ACTIONS.values()},
            **self.request,
            "AlarmName": self.name,
            "AlarmArn": self.arn,
            "AlarmConfigurationUpdatedTimestamp": self.configured,
            "StateValue": self.state,
            "StateReason": self.reason,
            "StateReasonData": self.reason_data or None,
            "StateUpdatedTimestamp": self.transitioned,
            "StateTransitionedTimestamp": self.transitioned,
        }
        if self.kind == "MetricAlarm":
            shown.setdefault("Dimensions", [])
        return shown


def _format_state(state: State, reason: str, data: str) -> dict[str, Any]:
    said: dict[str, Any] = {"stateValue": state, "stateReason": reason}
    if data:
        try:
            said["stateReasonData"] = json.loads(data)
        except ValueError:
            said["stateReasonData"] = data
    return said


def announce_change(
    aws: Loopback, alarm: Alarm, before: State, before_reason: str, at: datetime
) -> None:
    """Send the event of a state change, and run the alarm's actions if they are enabled."""
    now = {"value": alarm.state, "reason": alarm.reason, "timestamp": format_timestamp(at)}
    detail = {
        "alarmName": alarm.name,
        "state": now,
        "previousState": {"value": before, "reason": before_reason},
        "configuration": {"description": alarm.request.get("AlarmDescription", "")},
    }
    aws.send_event("aws.cloudwatch", "CloudWatch Alarm State Change", detail, alarm.arn, at)
    if not alarm.request.get("ActionsEnabled", True):
        return
    for action in alarm.request.get(ACTIONS[alarm.state], []):
        if action.startswith("arn:aws:sns:"):
            failure = _publish_to_topic(aws, alarm, before, action, at)
        elif action.startswith("arn:aws:autoscaling:") and alarm.state == "ALARM":
            failure = None  # scaling evaluates the alarms in ALARM right after this
        else:
            failure = "the local AWS runs only SNS actions and, in ALARM, scaling actions"
        done = "Successfully executed" if failure is None else "Failed to execute"
        data = {"actionState": "Succeeded" if failure is None else "Failed", "error": failure}
        alarm.add_history_item(at, "Action", f"{done} action {action}", data)


def _publish_to_topic(
    aws: Loopback, alarm: Alarm, before: State, topic: str, at: datetime
) -> str | None:
    where = _find_region_name(aws.region)
    subject = f'{alarm.state}: "{alarm.name}" in {where}'
    trigger = {name: alarm.request[name] for name in _TRIGGER if name in alarm.request}
    if alarm.kind == "MetricAlarm":
        # Only in this message, dimensions have lowercase keys.
        dimensions = alarm.request.get("Dimensions", [])
        trigger["Dimensions"] = [{"name": d["Name"], "value": d["Value"]} for d in dimensions]
    if "MetricName" in trigger:
        trigger |= {"TreatMissingData": "missing", "Unit": None, **trigger}
        trigger.setdefault("EvaluateLowSampleCountPercentile", "")
        kind = "Statistic" if "Statistic" in trigger else "ExtendedStatistic"
        trigger["StatisticType"] = kind
        if kind == "Statistic":
            # Only in an alarm's message, SampleCount is written SAMPLE_COUNT.
            trigger[kind] = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", trigger[kind]).upper()
    message = {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.request.get("AlarmDescription"),
        "AWSAccountId": aws.account,
        "AlarmConfigurationUpdatedTimestamp": format_timestamp(alarm.configured),
        "NewStateValue": alarm.state,
        "NewStateReason": alarm.reason,
        "StateChangeTime": format_timestamp(at),
        "Region": where,
        "AlarmArn": alarm.arn,
        "ActionExecutedAfterMuteWindow": False,
        "OldStateValue": before,
        **{kind: alarm.request.get(kind, []) for kind in ACTIONS.values()},
    }
    if alarm.kind == "MetricAlarm":
        message["Trigger"] = trigger
    else:
        message["AlarmRule"] = alarm.request["AlarmRule"]
        message["TriggeringChildren"] = _list_triggering_alarms(alarm)
    try:
        aws.client("sns").publish(
            TopicArn=topic, Subject=subject[:_LONGEST_SUBJECT], Message=json.dumps(message)
        )
    except Exception as error:
        return str(error)
    return None


def _list_triggering_alarms(composite: Alarm) -> list[dict[str, Any]]:
    """Return the alarms that changed a composite alarm, in the format of its message."""
    try:
        triggering = json.loads(composite.reason_data)["triggeringAlarms"]
    except (ValueError, KeyError, TypeError):  # SetAlarmState accepts any data
        return []
    return [
        {"Arn": one["arn"], "State": {name.title(): value for name, value in one["state"].items()}}
        for one in triggering
    ]


@functools.cache
def _find_region_name(region: str) -> str:
    """Return a Region's name in messages: US East (N. Virginia) for us-east-1."""
    for partition in botocore.loaders.Loader().load_data("endpoints")["partitions"]:
        if region in partition["regions"]:
            return str(partition["regions"][region]["description"])
    return region


class AlarmRegister:
    """Alarms: metric alarms are evaluated each minute, fine ones each 10 s, composites last."""

    def __init__(self, aws: Loopback, store: MetricStore, clock: Clock) -> None:
        self._aws, self._store, self._clock = aws, store, clock
        self._alarms: dict[str, Alarm] = {}
        # Alarms whose scaling actions run at the last tick.
        self.acting: list[tuple[Alarm, MetricAlarmRule, Evaluation]] = []
        # A tick and a SetAlarmState may run at the same time.
        self._lock = threading.RLock()

    def put_alarm(self, kind: Kind, request: dict[str, Any], tags: dict[str, str]) -> None:
        """Create an alarm, or update it without changing its state. Raises ValueError."""
        name = request["AlarmName"]
        rule: MetricAlarmRule | AlarmRule
        text = request.get("AlarmRule", "")
        rule = MetricAlarmRule(request) if kind == "MetricAlarm" else AlarmRule(text)
        at = self._clock.now()
        with self._lock:
            names = sorted(rule.names) if isinstance(rule, AlarmRule) else ()
            if unknown := [each for each in names if not self.find_alarm(each)]:
                absent = f"[{', '.join(unknown)}] in the alarm rule do not exist"
                raise ValueError(f"Could not save the composite alarm as alarms {absent}")
            alarm = self._alarms.get(name)
            if alarm is not None and alarm.kind != kind:
                raise ValueError(f"{name} is already the name of a {alarm.kind}.")
            verb = "Update" if alarm else "Create"
            if alarm is not None:  # as on AWS, its state stays
                alarm.request, alarm.rule, alarm.configured = request, rule, at
            else:
                arn = f"arn:aws:cloudwatch:{self._aws.region}:{self._aws.account}:alarm:{name}"
                alarm = self._alarms[name] = Alarm(kind, name, arn, request, at, rule, tags=tags)
            summary = f'Alarm "{name}" {verb.lower()}d'
            alarm.add_history_item(at, "ConfigurationUpdate", summary, {"type": verb})
            if verb == "Create" and kind == "CompositeAlarm":
                self._evaluate_composites(at)

    def list_alarms(self) -> list[Alarm]:
        with self._lock:
            return list(self._alarms.values())

    def find_alarm(self, name_or_arn: str) -> Alarm | None:
        return self._alarms.get(name_or_arn.split(":alarm:", 1)[-1])

    def list_names_in_alarm(self, names: Iterable[str]) -> list[str]:
        alarms = map(self.find_alarm, names)
        return [alarm.name for alarm in alarms if alarm and alarm.state == "ALARM"]

    def delete(self, names: list[str]) -> None:
        with self._lock:
            for name in names:
                self._alarms.pop(name, None)

    def set_state(self, name: str, state: State, reason: str, reason_data: str) -> None:
        """Set a state until the next evaluation returns a different one. Raises KeyError."""
        with self._lock:
            alarm = self._alarms[name]
            self._change_state(alarm, state, reason, reason_data, self._clock.now())
            alarm.set_off |= state == "ALARM"
            self._evaluate_composites(self._clock.now())

    def evaluate_due(self, at: datetime) -> None:
        """Evaluate every alarm that is due at `at`."""
        acting: list[tuple[Alarm, MetricAlarmRule, Evaluation]] = []
        for alarm in self.list_alarms():
            rule, set_off = alarm.rule, alarm.set_off
            if isinstance(rule, AlarmRule) or not (set_off or is_due(rule, at)):
                continue
            with self._lock:
                alarm.set_off, before = False, alarm.state
                result = rule.evaluate(self._store, at, before)
                if result is None:
                    continue
                if result.state != before and is_due(rule, at):
                    data = rule.format_reason_data(result, self._store)
                    self._change_state(alarm, result.state, rule.format_reason(result), data, at)
                if set_off or is_acting(before, alarm.state, at):
                    acting.append((alarm, rule, result))
        self.acting = acting
        self._evaluate_composites(at)

    def _evaluate_composites(self, at: datetime) -> None:
        alarms = self.list_alarms()
        composites = [(each, each.rule) for each in alarms if isinstance(each.rule, AlarmRule)]
        for _ in composites:  # a rule may contain other composite alarms, so repeat for each
            for alarm, rule in composites:
                state: State = "ALARM" if rule.is_met(self._find_state) else "OK"
                with self._lock:
                    reason, data = self._explain_composite(alarm, rule, state)
                    self._change_state(alarm, state, reason, data, at)

    def _explain_composite(
        self, composite: Alarm, rule: AlarmRule, state: State
    ) -> tuple[str, str]:
        """Return StateReason and StateReasonData: the alarms changed since the last evaluation.

        Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html
        (2026-11-28).
        """
        children = [child for name in sorted(rule.names) if (child := self.find_alarm(name))]
        before = composite.seen
        composite.seen = {child.name: child.state for child in children}
        changed = [child for child in children if child.state != (before or {}).get(child.name)]
        shown = []
        for child in changed:
            state_of = {"value": child.state, "timestamp": format_timestamp(child.transitioned)}
            shown.append({"arn": child.arn, "state": state_of})
        did = "created" if before is None else "updated"
        reason = f"{composite.arn} was {did} and its alarm rule evaluates to {state}"
        if before is not None and changed:
            first = changed[0]
            when = f"{first.transitioned:%A %d %B, %Y %H:%M:%S} UTC"
            reason = f"{first.arn} transitioned to {first.state} at {when}"
        return reason, json.dumps({"triggeringAlarms": shown})

    def _find_state(self, name: str) -> str:
        alarm = self.find_alarm(name)
        return alarm.state if alarm else "INSUFFICIENT_DATA"

    def _change_state(
        self, alarm: Alarm, state: State, reason: str, reason_data: str, at: datetime
    ) -> None:
        if state == alarm.state:
            return
        before, before_reason = alarm.state, alarm.reason
        alarm.change_state(state, reason, reason_data, at)
        announce_change(self._aws, alarm, before, before_reason, at)


class CloudWatch:
    """The metrics and alarms of one account and Region, on the shared clock."""

    def __init__(self, aws: Loopback, clock: Clock) -> None:
        self.clock = clock
        self.metrics = MetricStore()
        self.alarms = AlarmRegister(aws, self.metrics, clock)

    def tick(self, at: datetime) -> None:
        self.alarms.evaluate_due(at)
        if at.minute % 10 == 0 and at.second == 0:
            self.metrics.delete_before(at - KEPT)
