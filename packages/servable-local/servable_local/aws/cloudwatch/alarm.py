"""One alarm: its state, its history, and what it does when its state changes."""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import botocore.loaders

from servable_local.aws.loopback import Loopback
from servable_scaling.alarms.alarm_state import State, stamp

Kind = Literal["MetricAlarm", "CompositeAlarm"]
# AWS keeps 30 days; here a long-running alarm must not fill the memory.
_LONGEST_HISTORY = 1000
CREATED = "Unchecked: Initial alarm creation"
ACTIONS = {
    "ALARM": "AlarmActions",
    "OK": "OKActions",
    "INSUFFICIENT_DATA": "InsufficientDataActions",
}
_LONGEST_SUBJECT = 100  # SNS's limit
_TRIGGER = (
    "MetricName",
    "Namespace",
    "Statistic",
    "ExtendedStatistic",
    "Unit",
    "Period",
    "EvaluationPeriods",
    "ComparisonOperator",
    "Threshold",
    "TreatMissingData",
    "EvaluateLowSampleCountPercentile",
    "Metrics",
)


@dataclass
class Alarm:
    """`request` is PutMetricAlarm's or PutCompositeAlarm's, without its tags."""

    kind: Kind
    name: str
    arn: str
    request: dict[str, Any]
    configured: datetime
    state: State = "INSUFFICIENT_DATA"
    reason: str = CREATED
    reason_data: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    updated: datetime = field(init=False)
    transitioned: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.updated = self.transitioned = self.configured

    @property
    def actions(self) -> list[str]:
        """Actions of every state."""
        return [action for kind in ACTIONS.values() for action in self.request.get(kind, [])]

    def configure(self, request: dict[str, Any], at: datetime) -> None:
        """Put again: its state stays, as on AWS."""
        self.request, self.configured = request, at
        self.record(at, "ConfigurationUpdate", f'Alarm "{self.name}" updated', {"type": "Update"})

    def change(self, state: State, reason: str, reason_data: str, at: datetime) -> State:
        """Returns the state before."""
        before = self.state
        data = {
            "version": "1.0",
            "oldState": _said(before, self.reason, self.reason_data),
            "newState": _said(state, reason, reason_data),
        }
        self.state, self.reason, self.reason_data = state, reason, reason_data
        self.updated = at
        if before != state:
            self.transitioned = at
        self.record(at, "StateUpdate", f"Alarm updated from {before} to {state}", data)
        return before

    def record(self, at: datetime, kind: str, summary: str, data: Mapping[str, Any]) -> None:
        self.history.append(
            {
                "AlarmName": self.name,
                "AlarmType": self.kind,
                "Timestamp": at,
                "HistoryItemType": kind,
                "HistorySummary": summary,
                "HistoryData": json.dumps(data),
            }
        )
        del self.history[:-_LONGEST_HISTORY]

    def describe(self) -> dict[str, Any]:
        """As DescribeAlarms has it."""
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
            "StateUpdatedTimestamp": self.updated,
            "StateTransitionedTimestamp": self.transitioned,
        }
        if self.kind == "MetricAlarm":
            shown.setdefault("Dimensions", [])
        return shown


def _said(state: State, reason: str, data: str) -> dict[str, Any]:
    said: dict[str, Any] = {"stateValue": state, "stateReason": reason}
    if data:
        try:
            said["stateReasonData"] = json.loads(data)
        except ValueError:
            said["stateReasonData"] = data
    return said


def _in_capitals(statistic: str) -> str:
    """SampleCount as SAMPLE_COUNT: so, and only in an alarm's message, statistics are written."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", statistic).upper()


def announce(aws: Loopback, alarm: Alarm, before: State, before_reason: str, at: datetime) -> None:
    """After the change. Actions only where the alarm's actions are enabled."""
    aws.tell_event_bridge(
        source="aws.cloudwatch",
        kind="CloudWatch Alarm State Change",
        detail={
            "alarmName": alarm.name,
            "state": {"value": alarm.state, "reason": alarm.reason, "timestamp": stamp(at)},
            "previousState": {"value": before, "reason": before_reason},
            "configuration": {"description": alarm.request.get("AlarmDescription", "")},
        },
        resources=[alarm.arn],
        at=at,
    )
    if not alarm.request.get("ActionsEnabled", True):
        return
    for action in alarm.request.get(ACTIONS[alarm.state], []):
        if action.startswith("arn:aws:sns:"):
            failure = _publish(aws, alarm, before, action, at)
        elif action.startswith("arn:aws:autoscaling:") and alarm.state == "ALARM":
            failure = None  # scaling looks at what is in ALARM right after the alarms
        else:
            failure = "the local AWS carries out SNS actions, and scaling in ALARM, only"
        done = "Successfully executed" if failure is None else "Failed to execute"
        data = {"actionState": "Succeeded" if failure is None else "Failed", "error": failure}
        alarm.record(at, "Action", f"{done} action {action}", data)


def _publish(aws: Loopback, alarm: Alarm, before: State, topic: str, at: datetime) -> str | None:
    where = _region_name(aws.region)
    subject = f'{alarm.state}: "{alarm.name}" in {where}'
    trigger = {name: alarm.request[name] for name in _TRIGGER if name in alarm.request}
    if alarm.kind == "MetricAlarm":
        # In this message, and nowhere else, dimensions are written in lower case.
        trigger["Dimensions"] = [
            {"name": dimension["Name"], "value": dimension["Value"]}
            for dimension in alarm.request.get("Dimensions", [])
        ]
    if "MetricName" in trigger:
        trigger |= {"TreatMissingData": "missing", "Unit": None, **trigger}
        trigger.setdefault("EvaluateLowSampleCountPercentile", "")
        kind = "Statistic" if "Statistic" in trigger else "ExtendedStatistic"
        trigger["StatisticType"] = kind
        if kind == "Statistic":
            trigger[kind] = _in_capitals(trigger[kind])
    message = {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.request.get("AlarmDescription"),
        "AWSAccountId": aws.account,
        "AlarmConfigurationUpdatedTimestamp": stamp(alarm.configured),
        "NewStateValue": alarm.state,
        "NewStateReason": alarm.reason,
        "StateChangeTime": stamp(at),
        "Region": where,
        "AlarmArn": alarm.arn,
        "ActionExecutedAfterMuteWindow": False,
        "OldStateValue": before,
        **{kind: alarm.request.get(kind, []) for kind in ACTIONS.values()},
    }
    if alarm.kind == "MetricAlarm":
        message["Trigger"] = trigger
    else:
        message |= {"AlarmRule": alarm.request["AlarmRule"], "TriggeringChildren": _children(alarm)}
    try:
        aws.client("sns").publish(
            TopicArn=topic, Subject=subject[:_LONGEST_SUBJECT], Message=json.dumps(message)
        )
    except Exception as error:
        return str(error)
    return None


def _children(composite: Alarm) -> list[dict[str, Any]]:
    """The alarms that a composite one changed with, as its message writes them."""
    try:
        triggering = json.loads(composite.reason_data)["triggeringAlarms"]
    except (ValueError, KeyError, TypeError):  # set by hand, to whatever
        return []
    return [
        {"Arn": one["arn"], "State": {name.title(): value for name, value in one["state"].items()}}
        for one in triggering
    ]


@functools.cache
def _region_name(region: str) -> str:
    """US East (N. Virginia) for us-east-1: so the message says it."""
    for partition in botocore.loaders.Loader().load_data("endpoints")["partitions"]:
        if region in partition["regions"]:
            return str(partition["regions"][region]["description"])
    return region
