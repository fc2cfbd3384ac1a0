"""Alarms: there, with their thresholds, and telling somebody."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference, changed, gone

METRIC, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
_ACTIONS = ("AlarmActions", "OKActions", "InsufficientDataActions")
# DescribeAlarms takes 100 names at once.
_AT_ONCE = 100


def look(stack: Deployed) -> Iterator[Difference]:
    made = [*stack.of(METRIC), *stack.of(COMPOSITE)]
    names = [_name(one) for one in made]
    there: dict[str, dict[str, Any]] = {}
    for begin in range(0, len(names), _AT_ONCE):
        found = stack.account.client("cloudwatch").describe_alarms(
            AlarmNames=names[begin : begin + _AT_ONCE],
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            MaxRecords=_AT_ONCE,
        )
        for one in [*found.get("MetricAlarms", []), *found.get("CompositeAlarms", [])]:
            there[one["AlarmName"]] = one
    for one in made:
        name = _name(one)
        if name in there:
            yield from _alarm(name, one.properties, there[name])
        else:
            yield gone("alarm", name)


def _name(one: Resource) -> str:
    return str(one.properties.get("AlarmName", one.physical))


def _alarm(name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    shape = {key: value for key, value in wanted.items() if key not in (*_ACTIONS, "Tags")}
    yield from changed("alarm changed", name, shape, found, "somebody put it anew: deploy again")
    if wanted.get("ActionsEnabled", True) is not False:
        enabled = {"ActionsEnabled": found.get("ActionsEnabled", True)}
        meant = {"ActionsEnabled": True}
        yield from changed("alarm actions disabled", name, meant, enabled, "EnableAlarmActions")
    for key in _ACTIONS:
        asked, has = set(wanted.get(key, [])), set(found.get(key, []))
        if asked != has:
            yield Difference(
                kind="alarm actions" if has else "alarm without actions",
                resource=name,
                key=key,
                wanted=sorted(asked),
                found=sorted(has),
                remedy="it fires, and tells nobody that it should: deploy again",
            )
