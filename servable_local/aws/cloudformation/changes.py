"""Changes that a template would make to a stack: one per resource, kept as a change set."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.intrinsics import LATER, TemplateError
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.cloudformation.template import parse, shown_parameters
from servable_local.aws.errors import ValidationError
from servable_local.aws.resources.registry import TYPES

NO_CHANGES = (
    "The submitted information didn't contain changes. "
    "Submit different information to create a change set."
)


@dataclass(frozen=True)
class ResourceChange:
    """One resource's part. `replacement`: a change set's True, False or Conditional."""

    action: Literal["Add", "Modify", "Remove"]
    logical_id: str
    type: str
    physical_id: str | None = None
    properties: frozenset[str] = frozenset()
    replacement: str | None = None

    def describe(self) -> dict[str, Any]:
        """As DescribeChangeSet shows it."""
        recreation = "Never" if self.replacement == "False" else "Always"
        change: dict[str, Any] = {
            "Action": self.action,
            "LogicalResourceId": self.logical_id,
            "ResourceType": self.type,
            "Scope": ["Properties"] if self.properties else [],
            "Details": [
                {
                    "Target": {
                        "Attribute": "Properties",
                        "Name": name,
                        "RequiresRecreation": recreation,
                    },
                    "Evaluation": "Static",
                    "ChangeSource": "DirectModification",
                }
                for name in sorted(self.properties)
            ],
        }
        if self.physical_id:
            change["PhysicalResourceId"] = self.physical_id
        if self.replacement:
            change["Replacement"] = self.replacement
        return {"Type": "Resource", "ResourceChange": change}


def changed_properties(old: Mapping[str, Any], new: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(key for key in {*old, *new} if old.get(key) != new.get(key))


def plan(stack: Stack, blueprint: BoundTemplate) -> list[ResourceChange]:
    """The changes in the order in which they would happen. Raises `ValidationError`."""
    changes = []
    blueprint.planning = True
    for logical_id in blueprint.order:
        try:
            change = _change(stack, blueprint, logical_id)
        except TemplateError as error:
            raise ValidationError(str(error)) from None
        if change is None:
            continue
        if change.replacement != "False":
            # Who refers to it gets a value that is known only afterwards.
            blueprint.later.add(logical_id)
        changes.append(change)
    return changes + [
        ResourceChange("Remove", logical_id, resource.type, resource.physical_id)
        for logical_id, resource in stack.resources.items()
        if logical_id not in blueprint.declared
    ]


def _change(stack: Stack, blueprint: BoundTemplate, logical_id: str) -> ResourceChange | None:
    declared_type = blueprint.declared[logical_id]["Type"]
    properties = blueprint.properties(logical_id)
    current = stack.resources.get(logical_id)
    if current is None or current.type != declared_type:
        return ResourceChange("Add", logical_id, declared_type)
    changed = changed_properties(current.properties, properties)
    if not changed:
        return None
    fixed = changed & TYPES[declared_type].create_only if declared_type in TYPES else changed
    certain = any(LATER not in json.dumps(properties.get(name)) for name in fixed)
    replacement = "True" if certain else "Conditional" if fixed else "False"
    return ResourceChange(
        "Modify", logical_id, declared_type, current.physical_id, changed, replacement
    )


@dataclass
class ChangeSet:
    name: str
    stack: Stack
    text: str
    parameters: dict[str, str]
    changes: list[ResourceChange]
    about: dict[str, Any]
    description: str | None
    kind: str
    id: str = ""
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str | None = None
    created: Any = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        where = self.stack.id.split(":stack/")[0]
        self.id = f"{where}:changeSet/{self.name}/{uuid.uuid4()}"

    def fail(self, reason: str) -> None:
        self.status, self.execution_status, self.reason = "FAILED", "UNAVAILABLE", reason

    def summary(self) -> dict[str, Any]:
        return {
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "Description": self.description,
            "CreationTime": self.created,
            "Status": self.status,
            "StatusReason": self.reason,
            "ExecutionStatus": self.execution_status,
            "IncludeNestedStacks": False,
        }

    def describe(self) -> dict[str, Any]:
        return self.summary() | {
            "Changes": [change.describe() for change in self.changes],
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                for key, value in shown_parameters(parse(self.text), self.parameters).items()
            ],
            "Tags": [{"Key": k, "Value": v} for k, v in self.about["tags"].items()],
            "Capabilities": self.about["capabilities"],
            "NotificationARNs": self.about["notification_arns"],
        }
