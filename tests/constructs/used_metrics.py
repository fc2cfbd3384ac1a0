"""Every metric that a template speaks of: in alarms, on dashboards, in scaling policies."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SEARCH = re.compile(
    r"SEARCH\('\{(?P<namespace>[^,]+),(?P<dimensions>[^}]+)\} .*MetricName=\"(?P<name>\w+)\"', "
    r"'(?P<statistic>\w+)', 60\)"
)


@dataclass(frozen=True)
class Used:
    namespace: str
    name: str
    statistic: str
    dimensions: tuple[str, ...]
    unit: str | None
    where: str


def in_alarms(alarms: list[dict[str, Any]]) -> Iterator[Used]:
    for alarm in alarms:
        where = str(alarm["AlarmName"])
        if "MetricName" in alarm:
            statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
            yield _used(alarm, statistic, alarm.get("Unit"), where)
        for metric in alarm.get("Metrics", []):
            if "MetricStat" in metric:
                asked = metric["MetricStat"]
                yield _used(asked["Metric"], asked["Stat"], asked.get("Unit"), where)


def _used(metric: Mapping[str, Any], statistic: str, unit: str | None, where: str) -> Used:
    names = tuple(dimension["Name"] for dimension in metric.get("Dimensions", []))
    return Used(metric["Namespace"], metric["MetricName"], statistic, names, unit, where)


def body(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Its JSON, with a letter instead of what CloudFormation fills in."""
    parts = dashboard["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "X" for part in parts)
    found: dict[str, Any] = json.loads(text)
    return found


def on_dashboard(dashboard: dict[str, Any]) -> Iterator[Used]:
    for widget in body(dashboard)["widgets"]:
        for entry in widget["properties"].get("metrics", []):
            yield from _drawn(entry, str(widget["properties"].get("title")))


def _drawn(entry: list[Any], where: str) -> Iterator[Used]:
    options = entry[-1] if isinstance(entry[-1], dict) else {}
    if "expression" in options:
        for found in _SEARCH.finditer(options["expression"]):
            dimensions = tuple(found["dimensions"].split(","))
            yield Used(
                found["namespace"], found["name"], found["statistic"], dimensions, None, where
            )
        return
    namespace, name, *pairs = [one for one in entry if isinstance(one, str)]
    statistic = options.get("stat", "Average")  # CloudWatch's own
    yield Used(namespace, name, statistic, tuple(pairs[::2]), options.get("unit"), where)


def tracked(policies: list[dict[str, Any]]) -> set[str]:
    """Predefined metrics of target tracking."""
    return {
        one["PredefinedMetricSpecification"]["PredefinedMetricType"]
        for one in _tracking(policies)
        if "PredefinedMetricSpecification" in one
    }


def customized(policies: list[dict[str, Any]]) -> Iterator[Used]:
    """Metrics that target tracking names itself."""
    for one in _tracking(policies):
        if asked := one.get("CustomizedMetricSpecification"):
            yield _used(asked, asked["Statistic"], asked.get("Unit"), "scaling")


def _tracking(policies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key = "TargetTrackingScalingPolicyConfiguration"
    return [policy[key] for policy in policies if key in policy]
