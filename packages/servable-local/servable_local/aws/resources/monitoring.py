"""Alarms, dashboards, log groups, metric filters, saved queries, and EventBridge's rules and destinations."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    lower_first_letters,
    map_tags,
)


class LogGroup(ResourceType):
    type = "AWS::Logs::LogGroup"
    deletion = ("logs", "DeleteLogGroup", "logGroupName")
    name_property = "LogGroupName"
    emulated = frozenset({"LogGroupName", "KmsKeyId", "RetentionInDays", "LogGroupClass", "Tags"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        group = {key: properties[key] for key in ("KmsKeyId", "LogGroupClass") if key in properties}
        if properties.get("Tags"):
            group["Tags"] = map_tags(properties["Tags"])
        logical.call("logs", "CreateLogGroup", lower_first_letters(group | {"LogGroupName": name}))
        logical.exists(name)
        _apply_retention(name, properties, logical)
        return _build_physical(name, logical)

    def import_existing(self, identifier: Mapping[str, str], logical: Logical) -> Physical:
        name = identifier["LogGroupName"]
        groups = logical.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        if name not in [group["logGroupName"] for group in groups]:
            raise ResourceError(f"Log group {name} does not exist")
        return _build_physical(name, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logs, group = logical.client("logs"), {"logGroupName": physical}
        _apply_retention(physical, new, logical)
        if new.get("KmsKeyId") != old.get("KmsKeyId"):
            if "KmsKeyId" in new:
                logs.associate_kms_key(**group, kmsKeyId=new["KmsKeyId"])
            else:
                logs.disassociate_kms_key(**group)
        operations, arguments = ("TagLogGroup", "UntagLogGroup"), ("tags", "tags")
        logical.update_tags("logs", group, old, new, operations, arguments, map_tags)
        return _build_physical(physical, logical)


def _apply_retention(name: str, properties: Properties, logical: Logical) -> None:
    logs = logical.client("logs")
    if "RetentionInDays" in properties:
        days = int(properties["RetentionInDays"])
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
    else:
        logs.delete_retention_policy(logGroupName=name)


def _build_physical(name: str, logical: Logical) -> Physical:
    return Physical(name, {"Arn": logical.build_arn("logs", f"log-group:{name}:*")})


class MetricFilter(ResourceType):
    """A filter that counts lines of its log group (servable_local/aws/moto_patches/logs.py)."""

    type = "AWS::Logs::MetricFilter"
    create_only = frozenset({"FilterName", "LogGroupName"})
    name_property = "FilterName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        transformations = list(map(lower_first_letters, new["MetricTransformations"]))
        for each in transformations:
            if "dimensions" in each:
                each["dimensions"] = map_tags(each["dimensions"])
        properties = {**new, "FilterName": physical, "MetricTransformations": transformations}
        logical.call("logs", "PutMetricFilter", lower_first_letters(properties))
        return Physical(physical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        logs, group = logical.client("logs"), properties["LogGroupName"]
        with suppress(logs.exceptions.ResourceNotFoundException):  # already deleted
            logs.delete_metric_filter(filterName=physical, logGroupName=group)


class QueryDefinition(ResourceType):
    """A saved query, which can be described; no Logs Insights runs it (docs/local.md)."""

    type = "AWS::Logs::QueryDefinition"
    deletion = ("logs", "DeleteQueryDefinition", "queryDefinitionId")

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        current = {"queryDefinitionId": physical} if old else {}
        answer = logical.call("logs", "PutQueryDefinition", lower_first_letters(new) | current)
        query_id = str(answer["queryDefinitionId"])
        return Physical(query_id, {"QueryDefinitionId": query_id})


class CloudWatchAlarm(ResourceType):
    """An alarm, evaluated by servable_local/aws/cloudwatch."""

    type = "AWS::CloudWatch::Alarm"
    required: ClassVar[tuple[str, ...]] = ("ComparisonOperator", "EvaluationPeriods")
    operation = "PutMetricAlarm"
    deletion = ("cloudwatch", "DeleteAlarms", "AlarmNames")
    name_property = "AlarmName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.build_arn("cloudwatch", f"alarm:{physical}")
        logical.call("cloudwatch", self.operation, {**new, "AlarmName": physical})
        if old:  # PutMetricAlarm doesn't change an existing alarm's tags
            logical.update_tags("cloudwatch", {"ResourceARN": arn}, old, new)
        return Physical(physical, {"Arn": arn})


class CompositeAlarm(CloudWatchAlarm):
    """An alarm on the states of other alarms."""

    type = "AWS::CloudWatch::CompositeAlarm"
    required = ("AlarmRule",)
    operation = "PutCompositeAlarm"


class Dashboard(ResourceType):
    type = "AWS::CloudWatch::Dashboard"
    required = ("DashboardBody",)
    deletion = ("cloudwatch", "DeleteDashboards", "DashboardNames")
    name_property = "DashboardName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("cloudwatch", "PutDashboard", {**new, "DashboardName": physical})
        return Physical(physical)


class EventsRule(ResourceType):
    """An EventBridge rule, with its targets."""

    type = "AWS::Events::Rule"
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        rule: dict[str, Any] = {k: v for k, v in new.items() if k != "Targets"}
        if "EventPattern" in rule:
            rule["EventPattern"] = json.dumps(rule["EventPattern"])
        logical.call("events", "PutRule", {**rule, "Name": physical})
        bus, targets = _build_bus_argument(new), new.get("Targets", [])
        if gone := sorted({*_list_target_ids(old)} - {*_list_target_ids(new)}):
            logical.client("events").remove_targets(Rule=physical, Ids=gone, **bus)
        if targets:
            logical.call("events", "PutTargets", {"Rule": physical, "Targets": targets, **bus})
        return Physical(physical, {"Arn": logical.build_arn("events", f"rule/{physical}")})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        events, bus = logical.client("events"), _build_bus_argument(properties)
        if targets := _list_target_ids(properties):
            events.remove_targets(Rule=physical, Ids=targets, **bus)
        events.delete_rule(Name=physical, **bus)


class EventsConnection(ResourceType):
    """Credentials for API destinations."""

    type = "AWS::Events::Connection"
    kind = "Connection"
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        operation = ("Update" if old else "Create") + self.kind
        answer = logical.call("events", operation, {**new, "Name": physical})
        return Physical(physical, {"Arn": answer[f"{self.kind}Arn"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        logical.call("events", f"Delete{self.kind}", {"Name": physical})


class ApiDestination(EventsConnection):
    """An HTTP endpoint to which a rule sends events."""

    type = "AWS::Events::ApiDestination"
    kind = "ApiDestination"


def _list_target_ids(properties: Properties) -> list[str]:
    return [target["Id"] for target in properties.get("Targets", [])]


def _build_bus_argument(properties: Properties) -> dict[str, str]:
    bus = properties.get("EventBusName")
    return {"EventBusName": bus} if bus else {}
