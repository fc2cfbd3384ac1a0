"""Takes one stack from what exists to what a template says, and back when that fails.

The order is CloudFormation's: make and change in order of reference, then remove what was
replaced or dropped, last first. A replaced resource has a new Ref, so what refers to it
differs too and is changed in its turn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.changes import changed_properties
from servable_local.aws.cloudformation.resource_calls import ResourceCalls, ResourceFailedError
from servable_local.aws.cloudformation.stacks import Stack, StackResource
from servable_scaling.intrinsics import TemplateError


class StackDeployment:
    """One run. `verb` is CREATE, UPDATE or IMPORT, the first word of every status it sets.

    `imports`: logical id to the identifier of a resource that exists already.
    """

    def __init__(
        self,
        stack: Stack,
        blueprint: BoundTemplate,
        calls: ResourceCalls,
        *,
        verb: str,
        publish: Callable[[list[dict[str, Any]]], None],
        imports: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._stack = stack
        self._blueprint = blueprint
        self._calls = calls
        self._verb = verb
        self._publish = publish
        self._imports = imports
        self._adopted: list[str] = []
        # For a rollback: created resources, and the old records of the others.
        self._created: list[StackResource] = []
        self._replaced: dict[str, StackResource] = {}
        self._changed: list[tuple[StackResource, StackResource]] = []

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
            self._stack.record(logical_id, kind, None, f"{verb}_FAILED", str(error), {})
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
        if current is None and logical_id in self._imports:
            self._calls.adopt(resource, self._imports[logical_id])
            self._stack.resources[logical_id] = resource
            self._adopted.append(logical_id)
            return
        if current is None:
            self._make(resource)
            return
        kind = self._calls.type_of(resource)
        changed = changed_properties(current.properties, resource.properties)
        if current.type != resource.type or changed & kind.create_only:
            self._calls.refuse_fixed_name(current, resource)
            self._replaced[logical_id] = current
            self._make(resource, replaces=current)
        elif changed:
            self._changed.append((current, resource))
            self._calls.update(current, resource)
            self._stack.resources[logical_id] = resource
        else:
            for name in ("depends_on", "deletion_policy", "keep_on_replace", "metadata"):
                setattr(current, name, getattr(resource, name))

    def _make(self, resource: StackResource, replaces: StackResource | None = None) -> None:
        try:
            self._calls.create(resource, replaces)
        finally:
            # Failed half way it may exist all the same, and then it has to go again.
            if resource.physical_id:
                self._created.append(resource)
                self._stack.resources[resource.logical_id] = resource

    def _finish(self) -> None:
        dropped = [
            resource
            for name, resource in self._stack.resources.items()
            if name not in self._blueprint.declared
        ]
        if self._verb == "UPDATE":  # also where nothing has to go
            self._stack.set_status(f"{self._verb}_COMPLETE_CLEANUP_IN_PROGRESS")
        self._calls.delete_all(list(self._replaced.values()), replaced=True, cleanup=True)
        self._calls.delete_all(dropped, cleanup=True)
        # What CloudFormation fails to clean up leaves the stack all the same.
        for resource in dropped:
            self._stack.resources.pop(resource.logical_id, None)
        self._stack.set_status(f"{self._verb}_COMPLETE")

    def _fail(self, reason: str) -> None:
        stack = self._stack
        if stack.disable_rollback:
            stack.set_status(f"{self._verb}_FAILED", reason)
            return
        rollback = "ROLLBACK" if self._verb == "CREATE" else f"{self._verb}_ROLLBACK"
        if self._verb == "CREATE":
            # As on AWS it counts as deleted from here on, and can be asked for by its name.
            stack.deleted, reason = utc_now(), f"{reason} Rollback requested by user."
        stack.set_status(f"{rollback}_IN_PROGRESS", reason)
        for logical_id in self._adopted:  # none of them is touched
            del stack.resources[logical_id]
        try:
            for old, attempted in self._changed:
                self._calls.update(attempted, old)
                stack.resources[old.logical_id] = old
        except ResourceFailedError as failure:
            stack.set_status(f"{rollback}_FAILED", str(failure))
            return
        if self._verb == "UPDATE":
            stack.set_status(f"{rollback}_COMPLETE_CLEANUP_IN_PROGRESS")
        gone = self._calls.delete_all(self._created, rolling_back=True)
        for resource in self._created:
            listed = stack.resources.get(resource.logical_id) is resource
            # A failed creation keeps on its list what it could not delete.
            if listed and (resource in gone or self._verb == "UPDATE"):
                del stack.resources[resource.logical_id]
        stack.resources.update(self._replaced)
        if self._verb == "CREATE":
            kept = ", ".join(one.logical_id for one in self._created if one not in gone)
            problem = f"The following resource(s) failed to delete: [{kept}]. " if kept else None
            stack.set_status("ROLLBACK_FAILED" if kept else "ROLLBACK_COMPLETE", problem)
            return
        # AWS gives no reason. The CDK CLI prints 23 letters of a status but the whole reason.
        stack.set_status(f"{rollback}_COMPLETE", f"{rollback}_COMPLETE: {reason}")
