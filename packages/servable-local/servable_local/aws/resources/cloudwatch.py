"""Alarms and dashboards of CloudWatch; rules, connections and API destinations of EventBridge."""

import json
from typing import Any, ClassVar

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, retag
from servable_local.aws.resources.shapes import Properties


class CloudWatchAlarm(ResourceType):
    """An alarm, evaluated by servable_local/aws/cloudwatch."""

    type = "AWS::CloudWatch::Alarm"
    required: ClassVar[tuple[str, ...]] = ("ComparisonOperator", "EvaluationPeriods")
    operation = "PutMetricAlarm"
    deletion = ("cloudwatch", "DeleteAlarms", "AlarmNames")
    create_only = frozenset({"AlarmName"})
    name_property = "AlarmName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.arn("cloudwatch", f"alarm:{physical}")
        logical.call("cloudwatch", self.operation, {**new, "AlarmName": physical})
        if old:  # putting over an alarm leaves its tags as they are
            retag(logical, "cloudwatch", {"ResourceARN": arn}, old, new)
        return Physical(physical, {"Arn": arn})


class CompositeAlarm(CloudWatchAlarm):
    """An alarm on the states of others."""

    type = "AWS::CloudWatch::CompositeAlarm"
    required = ("AlarmRule",)
    operation = "PutCompositeAlarm"


class Dashboard(ResourceType):
    type = "AWS::CloudWatch::Dashboard"
    required = ("DashboardBody",)
    deletion = ("cloudwatch", "DeleteDashboards", "DashboardNames")
    create_only = frozenset({"DashboardName"})
    name_property = "DashboardName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("cloudwatch", "PutDashboard", {**new, "DashboardName": physical})
        return Physical(physical)


class EventsRule(ResourceType):
    """A rule, with its targets."""

    type = "AWS::Events::Rule"
    create_only = frozenset({"Name"})
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        rule: dict[str, Any] = {k: v for k, v in new.items() if k != "Targets"}
        if "EventPattern" in rule:
            rule["EventPattern"] = json.dumps(rule["EventPattern"])
        logical.call("events", "PutRule", {**rule, "Name": physical})
        targets, ids = new.get("Targets", []), _target_ids(new)
        if gone := [target for target in _target_ids(old) if target not in ids]:
            logical.client("events").remove_targets(Rule=physical, Ids=gone, **_bus(new))
        if targets:
            arguments = {"Rule": physical, "Targets": targets, **_bus(new)}
            logical.call("events", "PutTargets", arguments)
        return Physical(physical, {"Arn": logical.arn("events", f"rule/{physical}")})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        events, bus = logical.client("events"), _bus(properties)
        if targets := _target_ids(properties):
            events.remove_targets(Rule=physical, Ids=targets, **bus)
        events.delete_rule(Name=physical, **bus)


class EventsConnection(ResourceType):
    """Credentials for API destinations."""

    type = "AWS::Events::Connection"
    kind = "Connection"
    create_only = frozenset({"Name"})
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        operation = ("Update" if old else "Create") + self.kind
        answer = logical.call("events", operation, {**new, "Name": physical})
        return Physical(physical, {"Arn": answer[f"{self.kind}Arn"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        logical.call("events", f"Delete{self.kind}", {"Name": physical})


class ApiDestination(EventsConnection):
    """An HTTP endpoint that a rule sends events to."""

    type = "AWS::Events::ApiDestination"
    kind = "ApiDestination"


def _target_ids(properties: Properties) -> list[str]:
    return [target["Id"] for target in properties.get("Targets", [])]


def _bus(properties: Properties) -> dict[str, str]:
    bus = properties.get("EventBusName")
    return {"EventBusName": bus} if bus else {}
