"""Takes one stack from what exists to what a template says, and back when that fails.

The order is CloudFormation's: make and change in order of reference, then remove what was
replaced or dropped, last first. A replaced resource has a new Ref, so what refers to it
differs too and is changed in its turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.changes import changed_properties
from servable_local.aws.cloudformation.intrinsics import TemplateError
from servable_local.aws.cloudformation.resource_calls import ResourceCalls, ResourceFailedError
from servable_local.aws.cloudformation.stacks import Stack, StackResource


@dataclass
class _Undo:
    """Record for a rollback: resources that were made, and the old records of replaced or changed ones."""

    made: list[StackResource] = field(default_factory=list)
    replaced: dict[str, StackResource] = field(default_factory=dict)
    changed: list[tuple[StackResource, StackResource]] = field(default_factory=list)


class StackDeployment:
    """One run. `verb` is CREATE or UPDATE, the first word of every status it sets."""

    def __init__(
        self,
        stack: Stack,
        blueprint: BoundTemplate,
        calls: ResourceCalls,
        *,
        verb: str,
        publish: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        self._stack = stack
        self._blueprint = blueprint
        self._calls = calls
        self._verb = verb
        self._publish = publish
        self._undo = _Undo()

    def run(self) -> bool:
        """True when the stack is what the template says; False when it was rolled back."""
        try:
            for logical_id in self._blueprint.order:
                self._settle(logical_id)
            try:
                outputs = self._blueprint.outputs()
                self._publish(outputs)
            except TemplateError as error:
                raise ResourceFailedError(str(error)) from None
        except ResourceFailedError as failure:
            self._fail(str(failure))
            return False
        self._stack.outputs = outputs
        self._finish()
        return True

    def _settle(self, logical_id: str) -> None:
        declaration = self._blueprint.declared[logical_id]
        current = self._stack.resources.get(logical_id)
        try:
            properties = self._blueprint.properties(logical_id)
        except TemplateError as error:
            kind = declaration["Type"]
            verb = "UPDATE" if current else "CREATE"
            self._stack.record(logical_id, kind, None, f"{verb}_FAILED", str(error))
            raise ResourceFailedError(f"[{logical_id}]: {error}") from None
        resource = StackResource(
            logical_id=logical_id,
            type=declaration["Type"],
            physical_id="",
            properties=properties,
            attributes={},
            depends_on=frozenset(self._blueprint.depends_on[logical_id]),
            deletion_policy=declaration.get("DeletionPolicy", "Delete"),
            keep_on_replace=declaration.get("UpdateReplacePolicy") == "Retain",
            metadata=declaration.get("Metadata"),
        )
        if current is None:
            self._make(resource)
        elif changed := self._differs(current, resource):
            kind = self._calls.type_of(resource)
            if current.type != resource.type or changed & kind.create_only:
                self._calls.refuse_fixed_name(current, resource)
                self._undo.replaced[logical_id] = current
                self._make(resource, replaces=current)
            else:
                self._undo.changed.append((current, resource))
                self._calls.update(current, resource)
                self._stack.resources[logical_id] = resource
        else:
            current.depends_on = resource.depends_on
            current.deletion_policy = resource.deletion_policy
            current.keep_on_replace = resource.keep_on_replace
            current.metadata = resource.metadata

    def _differs(self, current: StackResource, resource: StackResource) -> frozenset[str]:
        if current.type != resource.type:
            return frozenset({"Type"})
        return changed_properties(current.properties, resource.properties)

    def _make(self, resource: StackResource, replaces: StackResource | None = None) -> None:
        try:
            self._calls.create(resource, replaces)
        finally:
            # Failed half way it may exist all the same, and then it has to go again.
            if resource.physical_id:
                self._undo.made.append(resource)
                self._stack.resources[resource.logical_id] = resource

    def _finish(self) -> None:
        dropped = [
            resource
            for name, resource in self._stack.resources.items()
            if name not in self._blueprint.declared
        ]
        if dropped or self._undo.replaced:
            self._stack.set_status(f"{self._verb}_COMPLETE_CLEANUP_IN_PROGRESS")
        self._calls.delete_all(list(self._undo.replaced.values()), replaced=True)
        for resource in self._calls.delete_all(dropped):
            self._stack.resources.pop(resource.logical_id, None)
        for name in [r.logical_id for r in dropped]:
            # What CloudFormation fails to clean up leaves the stack all the same.
            self._stack.resources.pop(name, None)
        self._stack.set_status(f"{self._verb}_COMPLETE")

    def _fail(self, reason: str) -> None:
        stack, undo = self._stack, self._undo
        if stack.disable_rollback:
            stack.set_status(f"{self._verb}_FAILED", reason)
            return
        rollback = "ROLLBACK" if self._verb == "CREATE" else "UPDATE_ROLLBACK"
        stack.set_status(f"{rollback}_IN_PROGRESS", reason)
        try:
            for old, attempted in undo.changed:
                self._calls.update(attempted, old)
                stack.resources[old.logical_id] = old
        except ResourceFailedError as failure:
            stack.set_status(f"{rollback}_FAILED", str(failure))
            return
        if self._verb == "UPDATE":
            stack.set_status(f"{rollback}_COMPLETE_CLEANUP_IN_PROGRESS")
        gone = self._calls.delete_all(undo.made, rolling_back=True)
        for resource in undo.made:
            listed = stack.resources.get(resource.logical_id) is resource
            # A failed creation keeps on its list what it could not delete.
            if listed and (resource in gone or self._verb == "UPDATE"):
                del stack.resources[resource.logical_id]
        stack.resources.update(undo.replaced)
        if self._verb == "CREATE" and len(gone) < len(undo.made):
            stack.set_status(
                f"{rollback}_FAILED",
                "The following resource(s) failed to delete: see their events.",
            )
            return
        # AWS gives no reason. The CDK CLI prints 23 letters of a status but the whole reason.
        stack.set_status(f"{rollback}_COMPLETE", f"{rollback}_COMPLETE: {reason}")
