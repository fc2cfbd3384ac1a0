"""Change sets: a plan kept under a name until it is executed."""

import uuid
from dataclasses import dataclass, field
from typing import Any

from servable_local.aws.cloudformation.change import Change
from servable_local.aws.cloudformation.errors import ChangeSetNotFoundError
from servable_local.aws.cloudformation.stack import Stack, now

NO_CHANGES = (
    "The submitted information didn't contain changes. "
    "Submit different information to create a change set."
)


@dataclass
class ChangeSet:
    name: str
    stack: Stack
    text: str
    parameters: dict[str, str]
    changes: list[Change]
    about: dict[str, Any]
    description: str | None
    kind: str
    id: str = ""
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str | None = None
    created: Any = field(default_factory=now)

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
        }

    def describe(self) -> dict[str, Any]:
        return self.summary() | {
            "Changes": [change.describe() for change in self.changes],
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value}
                for key, value in self.parameters.items()
            ],
            "Tags": [{"Key": k, "Value": v} for k, v in self.about["tags"].items()],
            "Capabilities": self.about["capabilities"],
            "NotificationARNs": self.about["notification_arns"],
        }


class ChangeSets:
    """Those of one account and region, by id; a name is unique within its stack."""

    def __init__(self) -> None:
        self._sets: dict[str, ChangeSet] = {}

    def add(self, change_set: ChangeSet) -> None:
        self._sets[change_set.id] = change_set

    def of(self, stack: Stack) -> list[ChangeSet]:
        return [one for one in self._sets.values() if one.stack is stack]

    def find(self, name_or_id: str, stack: Stack | None) -> ChangeSet | None:
        if name_or_id in self._sets:
            return self._sets[name_or_id]
        return next(
            (one for one in self._sets.values() if one.name == name_or_id and one.stack is stack),
            None,
        )

    def get(self, name_or_id: str, stack: Stack | None) -> ChangeSet:
        found = self.find(name_or_id, stack)
        if found is None:
            raise ChangeSetNotFoundError(f"ChangeSet [{name_or_id}] does not exist")
        return found

    def remove(self, change_set: ChangeSet) -> None:
        self._sets.pop(change_set.id, None)
