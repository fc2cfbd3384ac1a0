"""CloudFormation with resources of a type that fails on request, in no server."""

import json
import time
from types import SimpleNamespace
from typing import Any

from servable_local.aws.cloudformation.operations import CloudFormation
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.resources.resource_type import Logical, Physical, Properties, ResourceType


class Thing(ResourceType):
    """Resource whose calls are remembered; a call that `fails` names raises."""

    create_only, unchangeable = frozenset({"Kind"}), frozenset({"Fixed"})
    name_property = "Name"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, Exception] = {}

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if what in self.fails:
            raise self.fails[what]

    def create(self, properties: Properties, logical: Logical) -> Physical:
        physical = f"{logical.logical_id}-{properties.get('Kind', '')}"
        if properties.get("Half"):
            logical.exists(physical)
        self._call(f"create {physical}")
        return Physical(physical, {"Arn": f"arn:{physical}"})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        self._call(f"update {physical} {old.get('Size')}->{new.get('Size')}")
        return Physical(physical, {"Arn": f"arn:{physical}"})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._call(f"delete {physical}")


class Case:
    """Stacks of one account, and the type Test::Thing of their resources."""

    def __init__(self, thing: Thing) -> None:
        self.thing = thing
        aws: Any = SimpleNamespace(account="123456789012", region="us-east-1")
        self.formation = CloudFormation(aws)

    def deploy(self, resources: dict[str, Any], name: str = "stack", **more: Any) -> Stack:
        stack = self.formation.find_stack(name) or self.formation.register(name)
        self.formation.deploy(stack, json.dumps({"Resources": resources, **more}), {})
        return self.settled(stack)

    def delete(self, stack: Stack, *retained: str) -> Stack:
        self.formation.delete(stack, frozenset(retained))
        return self.settled(stack)

    @staticmethod
    def settled(stack: Stack) -> Stack:
        deadline = time.monotonic() + 20
        while stack.is_in_progress and time.monotonic() < deadline:
            time.sleep(0.001)
        return stack


def thing(kind: str = "Test::Thing", more: dict[str, Any] | None = None, **properties: Any) -> Any:
    return {"Type": kind, "Properties": properties, **(more or {})}
