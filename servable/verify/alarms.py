"""Alarms: they exist, with their thresholds and actions."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, changed, gone, undeclared
from servable.verify.resolving import UNKNOWN

METRIC, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
_ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")
# The operations that write an alarm take the properties of its CloudFormation resource.
_WRITERS = {METRIC: "put-metric-alarm", COMPOSITE: "put-composite-alarm"}
# DescribeAlarms takes 100 names at once.
_AT_ONCE = 100


def look(stack: DeployedStack) -> Iterator[Difference]:
    """Compare every alarm. Metric alarms come first, because a composite alarm's rule names them."""
    resources = [*stack.of(METRIC), *stack.of(COMPOSITE)]
    names = [_name(resource) for resource in resources]
    there: dict[str, dict[str, Any]] = {}
    for begin in range(0, len(names), _AT_ONCE):
        page = stack.account.client("cloudwatch").describe_alarms(
            AlarmNames=names[begin : begin + _AT_ONCE],
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            MaxRecords=_AT_ONCE,
        )
        for alarm in [*page.get("MetricAlarms", []), *page.get("CompositeAlarms", [])]:
            there[alarm["AlarmName"]] = alarm
    for resource in resources:
        name = _name(resource)
        if name in there:
            yield from _alarm(stack, resource, there[name])
        else:
            remedy = f"a deployment doesn't create it again; {written(stack, resource)}"
            yield gone("alarm", name, remedy)


def _name(resource: Resource) -> str:
    return str(resource.properties.get("AlarmName", resource.physical))


def written(stack: DeployedStack, resource: Resource) -> str:
    """Return the command that writes an alarm as it was deployed."""
    text = json.dumps({**resource.properties, "AlarmName": _name(resource)}, separators=(",", ":"))
    if json.dumps(UNKNOWN)[1:-1] in text:
        return RESTORE
    return (
        f"write it: `aws cloudwatch {_WRITERS[resource.type]} --region {stack.account.region} "
        f"--cli-input-json {shlex.quote(text)}`"
    )


def _alarm(
    stack: DeployedStack, resource: Resource, actual: dict[str, Any]
) -> Iterator[Difference]:
    name, wanted = _name(resource), resource.properties
    shape = {key: value for key, value in wanted.items() if key not in (*_ACTIONS, "Tags")}
    again = written(stack, resource)
    remedy = f"the alarm was changed outside CloudFormation; {again}"
    yield from changed("alarm changed", name, shape, actual, remedy)
    # What an alarm does where its template is silent:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html and
    # API_PutCompositeAlarm.html (2026-11-29)
    defaults = {
        "TreatMissingData": "missing",
        "DatapointsToAlarm": wanted.get("EvaluationPeriods"),
        "EvaluateLowSampleCountPercentile": "evaluate",
        "ActionsSuppressor": None,
        "Unit": None,
    }
    yield from undeclared("alarm changed", name, wanted, actual, defaults, remedy)
    if wanted.get("ActionsEnabled", True) is not False:
        enabled = {"ActionsEnabled": actual.get("ActionsEnabled", True)}
        enable = f"aws cloudwatch enable-alarm-actions --alarm-names {shlex.quote(name)}"
        yield from changed(
            "alarm actions disabled",
            name,
            {"ActionsEnabled": True},
            enabled,
            f"enable them: `{enable} --region {stack.account.region}`",
        )
    for key in _ACTIONS:
        expected, has = set(wanted.get(key, [])), set(actual.get(key, []))
        if expected != has:
            yield Difference(
                kind="alarm actions" if has else "alarm without actions",
                resource=name,
                key=key,
                wanted=sorted(expected),
                found=sorted(has),
                remedy=f"the alarm does not notify as deployed; {again}",
            )
