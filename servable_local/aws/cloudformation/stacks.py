"""What CloudFormation remembers: stacks, their resources and their events."""

import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from servable_local.aws.cloudformation.template import Template
from servable_local.aws.errors import AlreadyExistsError, ValidationError
from servable_local.aws.loopback import Loopback


def now() -> datetime:
    # Naive, as moto's serializers want it.
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass
class StackResource:
    """One resource that exists. `properties` are evaluated: what was sent to the service."""

    logical_id: str
    type: str
    physical_id: str
    properties: dict[str, Any]
    attributes: dict[str, Any]
    depends_on: frozenset[str] = frozenset()
    keep_on_delete: bool = False
    keep_on_replace: bool = False
    metadata: Any = None
    status: str = "CREATE_COMPLETE"
    reason: str | None = None
    changed: datetime = field(default_factory=now)


@dataclass
class Stack:
    """A stack and everything that DescribeStacks says of it."""

    id: str
    name: str
    account: str
    region: str
    status: str
    reason: str | None = None
    created: datetime = field(default_factory=now)
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
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def in_progress(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        self.status, self.reason = status, reason
        self.record(self.name, "AWS::CloudFormation::Stack", self.id, status, reason)

    def record(
        self,
        logical_id: str,
        resource_type: str,
        physical_id: str | None,
        status: str,
        reason: str | None = None,
    ) -> None:
        """One line of DescribeStackEvents, oldest first.

        Each at least a millisecond after the one before: the CDK CLI sorts by time, and
        what happens here within one millisecond would be shown in any order.
        """
        at = now()
        if self.events:
            at = max(at, self.events[-1]["Timestamp"] + timedelta(milliseconds=1))
        self.events.append(
            {
                "StackId": self.id,
                "StackName": self.name,
                "EventId": str(uuid.uuid4()),
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id or "",
                "ResourceType": resource_type,
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                "Timestamp": at,
            }
        )

    def describe(self) -> dict[str, Any]:
        return {
            "StackId": self.id,
            "StackName": self.name,
            "Description": self.template.get("Description"),
            "CreationTime": self.created,
            "LastUpdatedTime": self.updated,
            "DeletionTime": self.deleted,
            "StackStatus": self.status,
            "StackStatusReason": self.reason,
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                | ({"ResolvedValue": self.resolved[key]} if key in self.resolved else {})
                for key, value in self.parameters.items()
            ],
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            "Capabilities": self.capabilities,
            "NotificationARNs": self.notification_arns,
            "RoleARN": self.role_arn,
            "Outputs": self.outputs,
            "EnableTerminationProtection": self.termination_protection,
            "DisableRollback": self.disable_rollback,
            "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
        }


class Stacks:
    """The register. What is done to a stack: operations.py."""

    def __init__(self, aws: Loopback) -> None:
        self._aws = aws
        self._stacks: dict[str, Stack] = {}
        self.lock = threading.RLock()

    def all(self) -> list[Stack]:
        with self.lock:
            return list(self._stacks.values())

    def live(self, name_or_id: str) -> Stack | None:
        """The stack of that name that is not deleted, or of that id even if it is."""
        with self.lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
            return next(
                (
                    stack
                    for stack in self._stacks.values()
                    if stack.name == name_or_id and stack.status != "DELETE_COMPLETE"
                ),
                None,
            )

    def get(self, name_or_id: str) -> Stack:
        stack = self.live(name_or_id)
        if stack is None:
            raise ValidationError(f"Stack with id {name_or_id} does not exist")
        return stack

    def exports(self, besides: Stack | None = None) -> dict[str, str]:
        return {
            output["ExportName"]: output["OutputValue"]
            for stack in self.all()
            if stack is not besides
            for output in stack.outputs
            if "ExportName" in output
        }

    def register(self, name: str) -> Stack:
        """A stack that is only a name yet. Raises `AlreadyExistsError`."""
        with self.lock:
            if self.live(name) is not None:
                raise AlreadyExistsError(f"Stack [{name}] already exists")
            arn = (
                f"arn:aws:cloudformation:{self._aws.region}:{self._aws.account}:"
                f"stack/{name}/{uuid.uuid4()}"
            )
            stack = Stack(
                id=arn,
                name=name,
                account=self._aws.account,
                region=self._aws.region,
                status="REVIEW_IN_PROGRESS",
            )
            self._stacks[arn] = stack
            return stack

    def forget(self, stack: Stack) -> None:
        with self.lock:
            self._stacks.pop(stack.id, None)
