"""The stacks of an account and Region, and the thread that deploys each.

A deployment changes one stack to the state in a template, and back if that fails. Like
CloudFormation, it creates and changes resources in order of reference, then removes replaced or
dropped ones in reverse order. A replaced resource has a new Ref, so each resource that refers to
it also changes.
"""

import json
import re
import threading
import traceback
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import BoundTemplate, DynamicReferences
from servable_local.aws.cloudformation.changes import ChangeSet, find_changed_properties
from servable_local.aws.cloudformation.resource_calls import ResourceCalls, ResourceFailedError
from servable_local.aws.cloudformation.stacks import Stack, StackResource
from servable_local.aws.cloudformation.template import parse_template, resolve_parameters
from servable_local.aws.errors import AlreadyExistsError, ChangeSetNotFoundError, ValidationError
from servable_local.aws.loopback import Loopback
from servable_local.aws.resources.resource_type import format_violation, format_violations
from servable_scaling.intrinsics import TemplateError

_STACK_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*")
_LONGEST_NAME = 128  # API_CreateStack.html, 2026-11-28
_UPDATABLE = (
    "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE",
    "CREATE_FAILED", "UPDATE_FAILED",
)  # fmt: skip


@dataclass
class StackDeployment:
    """One deployment. `verb` is CREATE, UPDATE, or IMPORT, the first word of each status it sets.

    `imports`: logical id to the identifier of a resource that exists already. `list_taken`
    returns the names that other stacks export.
    """

    stack: Stack
    blueprint: BoundTemplate
    calls: ResourceCalls
    verb: str
    imports: Mapping[str, Mapping[str, str]]
    list_taken: Callable[[], Collection[str]]
    adopted: list[str] = field(default_factory=list)
    # For a rollback: created resources, and the old records of other resources.
    created: list[StackResource] = field(default_factory=list)
    replaced: dict[str, StackResource] = field(default_factory=dict)
    changed: list[tuple[StackResource, StackResource]] = field(default_factory=list)

    def run(self) -> bool:
        """Run the deployment. Return True if the stack matches the template, False if it failed."""
        try:
            for logical_id in self.blueprint.order:
                self._deploy_resource(logical_id)
            outputs, taken = self.blueprint.evaluate_outputs(), self.list_taken()
            for name in (output.get("ExportName") for output in outputs):
                if name in taken:
                    problem = f"Export with name {name} is already exported by another stack"
                    raise TemplateError(problem)
        except (ResourceFailedError, TemplateError) as failure:
            self._roll_back(str(failure))
            return False
        self.stack.outputs = outputs
        self._finish()
        return True

    def _deploy_resource(self, logical_id: str) -> None:
        declaration = self.blueprint.declared[logical_id]
        current = self.stack.resources.get(logical_id)
        try:
            properties = self.blueprint.evaluate_properties(logical_id)
        except TemplateError as error:
            kind, verb = declaration["Type"], "UPDATE" if current else "CREATE"
            self.stack.record_event(logical_id, kind, None, f"{verb}_FAILED", str(error), {})
            raise ResourceFailedError(f"[{logical_id}]: {error}") from None
        resource = StackResource(
            logical_id=logical_id,
            type=declaration["Type"],
            properties=properties,
            depends_on=frozenset(self.blueprint.depends_on[logical_id]),
            deletion_policy=declaration.get("DeletionPolicy", "Delete"),
            keep_on_replace=declaration.get("UpdateReplacePolicy") == "Retain",
        )
        if current is None and logical_id in self.imports:
            self.calls.adopt(resource, self.imports[logical_id])
            self.stack.resources[logical_id] = resource
            self.adopted.append(logical_id)
            return
        if current is None:
            self._create_resource(resource)
            return
        kind = self.calls.find_type(resource)
        changed = find_changed_properties(current.properties, resource.properties)
        if current.type != resource.type or changed & kind.create_only:
            self.calls.reject_fixed_name(current, resource)
            self.replaced[logical_id] = current
            self._create_resource(resource, replaces=current)
        elif changed:
            self.calls.reject_unchangeable(resource, changed)  # nothing has to be changed back
            self.changed.append((current, resource))
            self.calls.update(current, resource)
            self.stack.resources[logical_id] = resource
        else:
            for name in ("depends_on", "deletion_policy", "keep_on_replace"):
                setattr(current, name, getattr(resource, name))

    def _create_resource(
        self, resource: StackResource, replaces: StackResource | None = None
    ) -> None:
        try:
            self.calls.create(resource, replaces)
        finally:
            # A failed creation may have created it, and then it has to be deleted.
            if resource.physical_id:
                self.created.append(resource)
                self.stack.resources[resource.logical_id] = resource

    def _finish(self) -> None:
        resources, kept = self.stack.resources, self.blueprint.declared
        dropped = [resource for name, resource in resources.items() if name not in kept]
        if self.verb == "UPDATE":  # also if nothing is deleted
            self.stack.set_status(f"{self.verb}_COMPLETE_CLEANUP_IN_PROGRESS")
        self.calls.delete_all(list(self.replaced.values()), replaced=True, cleanup=True)
        self.calls.delete_all(dropped, cleanup=True)
        # CloudFormation removes these from the stack even if their deletion failed.
        for resource in dropped:
            resources.pop(resource.logical_id, None)
        self.stack.set_status(f"{self.verb}_COMPLETE")

    def _roll_back(self, reason: str) -> None:
        stack, created = self.stack, self.created
        if stack.disable_rollback:
            stack.set_status(f"{self.verb}_FAILED", reason)
            return
        rollback = "ROLLBACK" if self.verb == "CREATE" else f"{self.verb}_ROLLBACK"
        if self.verb == "CREATE":
            # As on AWS, it has a deletion time from here on, and can still be described by its name.
            stack.deleted, reason = utc_now(), f"{reason} Rollback requested by user."
        stack.set_status(f"{rollback}_IN_PROGRESS", reason)
        for logical_id in self.adopted:  # adopted resources aren't deleted
            del stack.resources[logical_id]
        try:
            for old, attempted in self.changed:
                self.calls.update(attempted, old)
                stack.resources[old.logical_id] = old
        except ResourceFailedError as failure:
            stack.set_status(f"{rollback}_FAILED", str(failure))
            return
        if self.verb == "UPDATE":
            stack.set_status(f"{rollback}_COMPLETE_CLEANUP_IN_PROGRESS")
        gone = self.calls.delete_all(created, rolling_back=True)
        for resource in created:
            listed = stack.resources.get(resource.logical_id) is resource
            # A failed creation still lists the resources that it couldn't delete.
            if listed and (resource in gone or self.verb == "UPDATE"):
                del stack.resources[resource.logical_id]
        stack.resources.update(self.replaced)
        if self.verb == "CREATE":
            kept = ", ".join(one.logical_id for one in created if one not in gone)
            problem = f"The following resource(s) failed to delete: [{kept}]. " if kept else None
            stack.set_status("ROLLBACK_FAILED" if kept else "ROLLBACK_COMPLETE", problem)
            return
        # AWS gives no reason. The CDK CLI prints 23 letters of a status but the whole reason.
        stack.set_status(f"{rollback}_COMPLETE", f"{rollback}_COMPLETE: {reason}")


class CloudFormation:
    """The stacks of one account and Region. Deploying and deleting return at once, as on AWS."""

    def __init__(self, aws: Loopback) -> None:
        self.aws = aws
        self._stacks: dict[str, Stack] = {}
        self._lock = threading.RLock()

    def list_stacks(self) -> list[Stack]:
        with self._lock:
            return list(self._stacks.values())

    def find_stack(self, name_or_id: str) -> Stack | None:
        """Return the stack with this name unless it is deleted, or with this ID even if it is."""
        with self._lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
            named = (stack for stack in self._stacks.values() if stack.name == name_or_id)
            return next((stack for stack in named if stack.status != "DELETE_COMPLETE"), None)

    def require_stack(self, name_or_id: str) -> Stack:
        stack = self.find_stack(name_or_id)
        if stack is None:
            raise ValidationError(f"Stack with id {name_or_id} does not exist")
        return stack

    def find_resource_stack(self, physical_id: str) -> Stack:
        for stack in self.list_stacks():
            if physical_id in [one.physical_id for one in stack.resources.values()]:
                return stack
        raise ValidationError(f"Stack for {physical_id} does not exist")

    def list_exports(self, excluded: Stack | None = None) -> dict[str, str]:
        return {
            output["ExportName"]: output["OutputValue"]
            for stack in self.list_stacks()
            if stack is not excluded and stack.status != "DELETE_COMPLETE"
            for output in stack.outputs
            if "ExportName" in output
        }

    def register(self, name: str) -> Stack:
        """Register a stack that only has a name. Raises `AlreadyExistsError`, `ValidationError`."""
        must = []
        if not _STACK_NAME.fullmatch(name):
            must.append(f"satisfy regular expression pattern: {_STACK_NAME.pattern}")
        if len(name) > _LONGEST_NAME:
            must.append(f"have length less than or equal to {_LONGEST_NAME}")
        if must:
            problems = [format_violation("stackName", one, f" '{name}'") for one in must]
            raise ValidationError(format_violations(problems))
        where = f"arn:aws:cloudformation:{self.aws.region}:{self.aws.account}"
        with self._lock:
            if self.find_stack(name) is not None:
                raise AlreadyExistsError(f"Stack [{name}] already exists")
            stack = Stack(
                id=f"{where}:stack/{name}/{uuid.uuid4()}",
                name=name,
                account=self.aws.account,
                region=self.aws.region,
                status="REVIEW_IN_PROGRESS",
            )
            self._stacks[stack.id] = stack
            return stack

    def forget(self, stack: Stack) -> None:
        with self._lock:
            self._stacks.pop(stack.id, None)

    def find_change_set(self, name_or_id: str, stack: Stack | None) -> ChangeSet:
        """Find a change set by name in a stack, or by ID. Raises `ChangeSetNotFoundError`."""
        for owner in [stack] if stack else self.list_stacks():
            for name, change_set in owner.change_sets.items():
                if name_or_id in ((name, change_set.id) if stack else (change_set.id,)):
                    return change_set  # type: ignore[no-any-return]
        raise ChangeSetNotFoundError(f"ChangeSet [{name_or_id}] does not exist")

    def bind(self, stack: Stack, text: str, parameters: dict[str, str]) -> BoundTemplate:
        """Bind a template to a stack. Raises `ValidationError` before anything is created."""
        template = parse_template(text)
        values = resolve_parameters(template, parameters, self.aws)
        stored = DynamicReferences(self.aws)
        return BoundTemplate(stack, template, values, self.list_exports(), stored)

    def check_role(self, arn: str) -> None:
        """Raise `ValidationError` if the role's own policy doesn't let CloudFormation assume it."""
        name = arn.rsplit("/", 1)[-1]
        iam = self.aws.client("iam")
        with suppress(iam.exceptions.NoSuchEntityException):
            trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
            statements = trust["Statement"]
            for one in statements if isinstance(statements, list) else [statements]:
                if one["Effect"] == "Allow" and "cloudformation" in json.dumps(one["Principal"]):
                    return
        raise ValidationError(f"Role {arn} is invalid or cannot be assumed")

    def check_updatable(self, stack: Stack) -> None:
        if stack.status not in _UPDATABLE:
            problem = f"Stack:{stack.id} is in {stack.status} state and can not be updated."
            raise ValidationError(problem)

    def deploy(
        self,
        stack: Stack,
        text: str,
        parameters: dict[str, str],
        *,
        change_set: str | None = None,
        imports: Mapping[str, Mapping[str, str]] | None = None,
        **about: Any,
    ) -> None:
        """Start the deployment. `about` contains fields of the stack, such as tags.

        `imports`: logical id to the identifier of a resource that exists already.
        """
        blueprint = self.bind(stack, text, parameters)
        with self._lock:
            creating = stack.status == "REVIEW_IN_PROGRESS"
            if not creating:
                self.check_updatable(stack)
            verb = "IMPORT" if imports else "CREATE" if creating else "UPDATE"
            stack.set_status(f"{verb}_IN_PROGRESS", "User Initiated")
        after = {
            "template": blueprint.template,
            "template_text": text,
            "parameters": parameters,
            "resolved": blueprint.select_resolved_values(parameters),
            **about,
        }
        before = {name: getattr(stack, name) for name in after}
        vars(stack).update(after)
        # A creation by a change set counts as an update of the stack in review.
        stack.updated = None if creating and change_set is None else utc_now()
        stack.change_set_id = change_set or stack.change_set_id
        for other in stack.change_sets.values():
            other.execution_status = "OBSOLETE"

        calls, list_taken = ResourceCalls(stack, self.aws), partial(self.list_exports, stack)
        deployment = StackDeployment(stack, blueprint, calls, verb, imports or {}, list_taken)

        def run_deployment() -> None:
            if not deployment.run() and not creating and not stack.disable_rollback:
                vars(stack).update(before)

        self._start_thread(stack, run_deployment, failed=f"{verb}_FAILED")

    def delete(self, stack: Stack, retained: frozenset[str] = frozenset()) -> None:
        if stack.status == "DELETE_COMPLETE":
            return
        if stack.termination_protection:
            raise ValidationError(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        exported = {output["ExportName"] for output in stack.outputs if "ExportName" in output}
        name = "|".join(map(re.escape, exported)) or "(?!)"  # which matches nothing
        importing = re.compile(rf'ImportValue[":\s]+({name})(?![\w:-])')
        if importers := sorted(
            other.name
            for other in self.list_stacks()
            if other is not stack
            and other.status != "DELETE_COMPLETE"
            and importing.search(other.template_text)
        ):
            used = f"it is in use by {', '.join(importers)}"
            raise ValidationError(f"Export of {stack.name} cannot be deleted as {used}")
        with self._lock:
            if stack.is_in_progress:
                problem = f"Stack:{stack.id} is in {stack.status} state and can not be deleted."
                raise ValidationError(problem)
            stack.deleted = utc_now()  # which stays if the deletion fails
            stack.set_status("DELETE_IN_PROGRESS", "User Initiated")

        def delete_resources() -> None:
            calls = ResourceCalls(stack, self.aws)
            for resource in calls.delete_all(stack.resources.values(), retained=retained):
                del stack.resources[resource.logical_id]
            if left := ", ".join(stack.resources):
                reason = f"The following resource(s) failed to delete: [{left}]. "
                stack.set_status("DELETE_FAILED", reason)
            else:
                stack.set_status("DELETE_COMPLETE")

        self._start_thread(stack, delete_resources, failed="DELETE_FAILED")

    def _start_thread(self, stack: Stack, work: Callable[[], None], *, failed: str) -> None:
        def run_guarded() -> None:
            try:
                work()
            except Exception as error:
                traceback.print_exc()
                stack.set_status(failed, f"Internal failure of the local AWS: {error!r}")

        threading.Thread(target=run_guarded, name=f"deploy {stack.name}", daemon=True).start()
