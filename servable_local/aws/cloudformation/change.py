"""What a deployment does to one resource, decided from its old and new properties."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from servable_local.aws.resources.resource_type import ResourceType


class Action(Enum):
    ADD = "Add"
    KEEP = "Keep"
    MODIFY = "Modify"
    REPLACE = "Replace"
    REMOVE = "Remove"


@dataclass(frozen=True)
class Change:
    """One resource's part. `replacement` is a change set's True, False or Conditional."""

    action: Action
    logical_id: str
    type: str
    physical_id: str | None = None
    properties: frozenset[str] = frozenset()
    replacement: str | None = None

    def describe(self) -> dict[str, Any]:
        """As DescribeChangeSet shows it."""
        replaced = self.action is Action.REPLACE
        change: dict[str, Any] = {
            "Action": "Modify" if replaced else self.action.value,
            "LogicalResourceId": self.logical_id,
            "ResourceType": self.type,
            "Scope": ["Properties"] if self.properties else [],
            "Details": [
                {
                    "Target": {
                        "Attribute": "Properties",
                        "Name": name,
                        "RequiresRecreation": "Always" if replaced else "Never",
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


def replacing(kind: ResourceType, changed: frozenset[str]) -> frozenset[str]:
    """Those of the changed properties that cannot be changed on what exists."""
    return changed & kind.create_only
