"""Alarms and dashboards of CloudWatch, and rules of EventBridge."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, retag
from servable_local.aws.resources.shapes import Properties


class CloudWatchAlarm(ResourceType):
    """Evaluated by servable_local/aws/cloudwatch."""

    type = "AWS::CloudWatch::Alarm"
    create_only = frozenset({"AlarmName"})
    name_property = "AlarmName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        cloudwatch, arn = logical.client("cloudwatch"), _alarm_arn(physical, logical)
        logical.call("cloudwatch", "PutMetricAlarm", {**new, "AlarmName": physical})
        if old:  # putting over an alarm leaves its tags as they are
            retag(
                old,
                new,
                tag=lambda tags: cloudwatch.tag_resource(ResourceARN=arn, Tags=tags),
                untag=lambda keys: cloudwatch.untag_resource(ResourceARN=arn, TagKeys=keys),
            )
        return Physical(physical, {"Arn": arn})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        logical.client("cloudwatch").delete_alarms(AlarmNames=[physical])


class CompositeAlarm(CloudWatchAlarm):
    """Evaluated by servable_local/aws/cloudwatch."""

    type = "AWS::CloudWatch::CompositeAlarm"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("cloudwatch", "PutCompositeAlarm", {**new, "AlarmName": physical})
        return Physical(physical, {"Arn": _alarm_arn(physical, logical)})


def _alarm_arn(name: str, logical: Logical) -> str:
    return logical.arn("cloudwatch", f"alarm:{name}")


class Dashboard(ResourceType):
    type = "AWS::CloudWatch::Dashboard"
    create_only = frozenset({"DashboardName"})
    name_property = "DashboardName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("cloudwatch", "PutDashboard", {**new, "DashboardName": physical})
        return Physical(physical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        logical.client("cloudwatch").delete_dashboards(DashboardNames=[physical])


class EventsRule(ResourceType):
    """A rule, with its targets."""

    type = "AWS::Events::Rule"
    create_only = frozenset({"Name"})
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        wanted: dict[str, Any] = {k: v for k, v in new.items() if k != "Targets"}
        if "EventPattern" in wanted:
            wanted["EventPattern"] = json.dumps(wanted["EventPattern"])
        logical.call("events", "PutRule", {**wanted, "Name": physical})
        targets = new.get("Targets", [])
        kept = {target["Id"] for target in targets}
        gone = [one["Id"] for one in old.get("Targets", []) if one["Id"] not in kept]
        if gone:
            logical.client("events").remove_targets(Rule=physical, Ids=gone, **_bus(new))
        if targets:
            logical.call(
                "events", "PutTargets", {"Rule": physical, "Targets": targets, **_bus(new)}
            )
        return Physical(physical, {"Arn": logical.arn("events", f"rule/{physical}")})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        events, bus = logical.client("events"), _bus(properties)
        if targets := properties.get("Targets"):
            events.remove_targets(Rule=physical, Ids=[target["Id"] for target in targets], **bus)
        events.delete_rule(Name=physical, **bus)


def _bus(properties: Properties) -> dict[str, str]:
    bus = properties.get("EventBusName")
    return {"EventBusName": bus} if bus else {}
