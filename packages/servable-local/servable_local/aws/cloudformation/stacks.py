"""CloudFormation's record of a stack: its resources, its events, its change sets."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.template import Template, list_secret_values, mask_parameters


@dataclass
class StackResource:
    """A resource that exists. `properties` are evaluated, as sent to the service."""

    logical_id: str
    type: str
    properties: dict[str, Any]
    physical_id: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    depends_on: frozenset[str] = frozenset()
    deletion_policy: str = "Delete"
    keep_on_replace: bool = False
    status: str = "CREATE_COMPLETE"
    reason: str | None = None
    changed: datetime = field(default_factory=utc_now)


@dataclass
class Stack:
    """A stack and all details that DescribeStacks returns."""

    id: str
    name: str
    account: str
    region: str
    status: str
    reason: str | None = None
    created: datetime = field(default_factory=utc_now)
    updated: datetime | None = None
    deleted: datetime | None = None
    template_text: str = "{}"
    template: Template = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    resolved: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    notification_arns: list[str] = field(default_factory=list)
    role_arn: str | None = None
    termination_protection: bool = False
    disable_rollback: bool = False
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    change_sets: dict[str, Any] = field(default_factory=dict)
    change_set_id: str | None = None

    @property
    def is_in_progress(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        # The event first: callers that wait for the status then read the events.
        self.record_event(self.name, "AWS::CloudFormation::Stack", self.id, status, reason)
        self.status, self.reason = status, reason

    def record_event(
        self,
        logical_id: str,
        resource_type: str,
        physical_id: str | None,
        status: str,
        reason: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event of DescribeStackEvents, oldest first.

        A resource's event without `properties` is of the cleanup after an update; its ID is
        random. Each event is at least a millisecond later than the previous one: the CDK CLI
        sorts by time and would otherwise show events of the same millisecond in any order.
        """
        at = utc_now()
        if self.events:
            at = max(at, self.events[-1]["Timestamp"] + timedelta(milliseconds=1))
        named = f"{logical_id}-{status}-{at.isoformat(timespec='milliseconds')}Z"
        if properties is None:
            named = f"{logical_id}-{uuid.uuid4()}"
        shown = None if properties is None else json.dumps(properties)
        for value in list_secret_values(self.template, self.parameters) if shown else ():
            shown = str(shown).replace(json.dumps(value)[1:-1], "****")
        self.events.append(
            {
                "StackId": self.id,
                "StackName": self.name,
                "EventId": str(uuid.uuid4()) if physical_id == self.id else named,
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id or "",
                "ResourceType": resource_type,
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                "ResourceProperties": shown,
                "Timestamp": at,
            }
        )

    def describe_resources(
        self, changed: str, logical_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Describe all resources, or one. `changed`: how this operation calls the time of the last change."""
        return [
            {
                "StackId": self.id,
                "StackName": self.name,
                "LogicalResourceId": resource.logical_id,
                "PhysicalResourceId": resource.physical_id,
                "ResourceType": resource.type,
                "ResourceStatus": resource.status,
                "ResourceStatusReason": resource.reason,
                "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
                changed: resource.changed,
            }
            for resource in list(self.resources.values())
            if logical_id in (None, resource.logical_id)
        ]

    def describe(self) -> dict[str, Any]:
        gone = self.status == "DELETE_COMPLETE"
        return {
            "StackId": self.id,
            "StackName": self.name,
            "Description": self.template.get("Description"),
            "ChangeSetId": None if self.deleted else self.change_set_id,
            "CreationTime": self.created,
            "LastUpdatedTime": self.updated,
            "DeletionTime": self.deleted,
            "StackStatus": self.status,
            "StackStatusReason": self.reason,
            "Parameters": mask_parameters(self.template, self.parameters, self.resolved),
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            "Capabilities": self.capabilities or None,
            "NotificationARNs": self.notification_arns,
            "RoleARN": self.role_arn,
            "Outputs": self.outputs or None,
            "EnableTerminationProtection": None if gone else self.termination_protection,
            "RollbackConfiguration": {},
            "DisableRollback": self.disable_rollback,
            "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
        }
