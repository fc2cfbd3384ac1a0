"""What an alarm does when its state changes: SNS, its history, and EventBridge."""

import functools
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import botocore.loaders

from servable_local.aws import events
from servable_local.aws.cloudwatch.alarm import Alarm, stamp
from servable_local.aws.cloudwatch.m_of_n import State
from servable_local.aws.loopback import Loopback

_ACTIONS = {
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
    "DatapointsToAlarm",
    "ComparisonOperator",
    "Threshold",
    "TreatMissingData",
    "EvaluateLowSampleCountPercentile",
    "Metrics",
)


def announce(aws: Loopback, alarm: Alarm, before: State, before_reason: str, at: datetime) -> None:
    """After the change. Actions only where the alarm's actions are enabled."""
    _tell_event_bridge(aws, alarm, before, before_reason, at)
    if not alarm.acts:
        return
    for action in alarm.request.get(_ACTIONS[alarm.state], []):
        if action.startswith("arn:aws:sns:"):
            failure = _publish(aws, alarm, before, action, at)
        else:
            failure = "the embedded AWS carries out SNS actions only"
        done = "Successfully executed" if failure is None else "Failed to execute"
        data = {"actionState": "Succeeded" if failure is None else "Failed", "error": failure}
        alarm.record(at, "Action", f"{done} action {action}", data)


def _publish(aws: Loopback, alarm: Alarm, before: State, topic: str, at: datetime) -> str | None:
    where = _region_name(aws.region)
    subject = f'{alarm.state}: "{alarm.name}" in {where}'
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
        "OldStateValue": before,
        "OKActions": alarm.request.get("OKActions", []),
        "AlarmActions": alarm.request.get("AlarmActions", []),
        "InsufficientDataActions": alarm.request.get("InsufficientDataActions", []),
        "Trigger": _trigger(alarm.request),
    }
    try:
        aws.client("sns").publish(
            TopicArn=topic, Subject=subject[:_LONGEST_SUBJECT], Message=json.dumps(message)
        )
    except Exception as error:
        return str(error)
    return None


def _trigger(request: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: request[name] for name in _TRIGGER if name in request}
    if "AlarmRule" in request:
        return {"AlarmRule": request["AlarmRule"]}
    # In this message, and nowhere else, dimensions are written in lower case.
    found["Dimensions"] = [
        {"name": one["Name"], "value": one["Value"]} for one in request.get("Dimensions", [])
    ]
    return found


def _tell_event_bridge(
    aws: Loopback, alarm: Alarm, before: State, before_reason: str, at: datetime
) -> None:
    detail = {
        "alarmName": alarm.name,
        "state": {"value": alarm.state, "reason": alarm.reason, "timestamp": stamp(at)},
        "previousState": {"value": before, "reason": before_reason},
        "configuration": {"description": alarm.request.get("AlarmDescription", "")},
    }
    events.tell(
        aws,
        source="aws.cloudwatch",
        kind="CloudWatch Alarm State Change",
        detail=detail,
        resources=[alarm.arn],
        at=at,
    )


@functools.cache
def _region_name(region: str) -> str:
    """US East (N. Virginia) for us-east-1: so the message says it."""
    for partition in botocore.loaders.Loader().load_data("endpoints")["partitions"]:
        if region in partition["regions"]:
            return str(partition["regions"][region]["description"])
    return region
