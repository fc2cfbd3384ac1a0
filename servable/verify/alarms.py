"""Alarms: they exist, with their thresholds and actions."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Difference, changed, gone

METRIC, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
_ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")
# DescribeAlarms takes 100 names at once.
_AT_ONCE = 100


def look(stack: DeployedStack) -> Iterator[Difference]:
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
            yield from _alarm(name, resource.properties, there[name])
        else:
            yield gone("alarm", name)


def _name(resource: Resource) -> str:
    return str(resource.properties.get("AlarmName", resource.physical))


def _alarm(name: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    shape = {key: value for key, value in wanted.items() if key not in (*_ACTIONS, "Tags")}
    remedy = "the alarm was changed outside CloudFormation: deploy again"
    yield from changed("alarm changed", name, shape, actual, remedy)
    if wanted.get("ActionsEnabled", True) is not False:
        enabled = {"ActionsEnabled": actual.get("ActionsEnabled", True)}
        meant = {"ActionsEnabled": True}
        yield from changed("alarm actions disabled", name, meant, enabled, "EnableAlarmActions")
    for key in _ACTIONS:
        expected, has = set(wanted.get(key, [])), set(actual.get(key, []))
        if expected != has:
            yield Difference(
                kind="alarm actions" if has else "alarm without actions",
                resource=name,
                key=key,
                wanted=sorted(expected),
                found=sorted(has),
                remedy="the alarm does not notify as deployed: deploy again",
            )
