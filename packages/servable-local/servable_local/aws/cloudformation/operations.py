"""The stacks of an account and region, and what is done to one, each by a thread of its own."""

import re
import threading
import traceback
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.changes import ChangeSet
from servable_local.aws.cloudformation.deployment import StackDeployment
from servable_local.aws.cloudformation.dynamic_references import DynamicReferences
from servable_local.aws.cloudformation.resource_calls import ResourceCalls
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.cloudformation.template import parse, resolved_parameters
from servable_local.aws.errors import (
    AlreadyExistsError,
    ChangeSetNotFoundError,
    ValidationError,
)
from servable_local.aws.loopback import Loopback
from servable_local.aws.resources.shapes import refusal, violation
from servable_scaling.intrinsics import TemplateError

_STACK_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*")
_LONGEST_NAME = 128  # API_CreateStack.html, 2026-11-28
_NONE_IMPORTED: Mapping[str, Mapping[str, str]] = {}
_UPDATABLE = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_FAILED",
)


class CloudFormation:
    """Every stack of one account and region. Deploying and deleting return at once, as on AWS."""

    def __init__(self, aws: Loopback) -> None:
        self.aws = aws
        self._stacks: dict[str, Stack] = {}
        self._lock = threading.RLock()

    def all(self) -> list[Stack]:
        with self._lock:
            return list(self._stacks.values())

    def find(self, name_or_id: str) -> Stack | None:
        """The stack of that name that is not deleted, or of that id even if it is."""
        with self._lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
            named = (stack for stack in self._stacks.values() if stack.name == name_or_id)
            return next((stack for stack in named if stack.status != "DELETE_COMPLETE"), None)

    def get(self, name_or_id: str) -> Stack:
        stack = self.find(name_or_id)
        if stack is None:
            raise ValidationError(f"Stack with id {name_or_id} does not exist")
        return stack

    def of_resource(self, physical_id: str) -> Stack:
        for stack in self.all():
            if any(one.physical_id == physical_id for one in stack.resources.values()):
                return stack
        raise ValidationError(f"Stack for {physical_id} does not exist")

    def exports(self, besides: Stack | None = None) -> dict[str, str]:
        return {
            output["ExportName"]: output["OutputValue"]
            for stack in self.all()
            if stack is not besides and stack.status != "DELETE_COMPLETE"
            for output in stack.outputs
            if "ExportName" in output
        }

    def register(self, name: str) -> Stack:
        """A stack that is only a name yet. Raises `AlreadyExistsError`, `ValidationError`."""
        must = [f"satisfy regular expression pattern: {_STACK_NAME.pattern}"]
        must = [] if _STACK_NAME.fullmatch(name) else must
        if len(name) > _LONGEST_NAME:
            must.append(f"have length less than or equal to {_LONGEST_NAME}")
        if must:
            problems = [violation("stackName", one, f" '{name}'") for one in must]
            raise ValidationError(refusal(problems))
        where = f"arn:aws:cloudformation:{self.aws.region}:{self.aws.account}"
        with self._lock:
            if self.find(name) is not None:
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

    def change_set(self, name_or_id: str, stack: Stack | None) -> ChangeSet:
        """Find a change set by its name within a stack, or by its id. Raises `ChangeSetNotFoundError`."""
        for owner in [stack] if stack else self.all():
            for name, change_set in owner.change_sets.items():
                if name_or_id in ((name, change_set.id) if stack else (change_set.id,)):
                    return change_set  # type: ignore[no-any-return]
        raise ChangeSetNotFoundError(f"ChangeSet [{name_or_id}] does not exist")

    def bind(self, stack: Stack, text: str, parameters: dict[str, str]) -> BoundTemplate:
        """Raises `ValidationError` for what can be seen before anything is made."""
        template = parse(text)
        values = resolved_parameters(template, parameters, self.aws)
        return BoundTemplate(stack, template, values, self.exports(), DynamicReferences(self.aws))

    def check_updatable(self, stack: Stack) -> None:
        if stack.status not in _UPDATABLE:
            raise ValidationError(
                f"Stack:{stack.id} is in {stack.status} state and can not be updated."
            )

    def deploy(
        self,
        stack: Stack,
        text: str,
        parameters: dict[str, str],
        *,
        change_set: str | None = None,
        imports: Mapping[str, Mapping[str, str]] = _NONE_IMPORTED,
        **about: Any,
    ) -> None:
        """Starts the deployment. `about` are fields of the stack, such as tags.

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
            "resolved": blueprint.resolved_from(parameters),
            **about,
        }
        before = {name: getattr(stack, name) for name in after}
        vars(stack).update(after)
        # A creation by a change set is an update of the stack that the change set made.
        stack.updated = None if creating and change_set is None else utc_now()
        stack.change_set_id = change_set or stack.change_set_id
        for other in stack.change_sets.values():
            other.execution_status = "OBSOLETE"

        def publish(outputs: list[dict[str, Any]]) -> None:
            taken = self.exports(besides=stack)
            for output in outputs:
                if output.get("ExportName") in taken:
                    raise TemplateError(
                        f"Export with name {output['ExportName']} is already exported by "
                        "another stack"
                    )

        deployment = StackDeployment(
            stack,
            blueprint,
            ResourceCalls(stack, self.aws),
            verb=verb,
            publish=publish,
            imports=imports,
        )

        def work() -> None:
            if not deployment.run() and not creating and not stack.disable_rollback:
                vars(stack).update(before)

        self._start(stack, work, failed=f"{verb}_FAILED")

    def delete(self, stack: Stack, retained: frozenset[str] = frozenset()) -> None:
        if stack.status == "DELETE_COMPLETE":
            return
        if stack.termination_protection:
            raise ValidationError(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        exported = {output["ExportName"] for output in stack.outputs if "ExportName" in output}
        importers = sorted(
            other.name
            for other in self.all()
            if other is not stack
            and other.status != "DELETE_COMPLETE"
            and any(f'"{name}"' in other.template_text for name in exported)
        )
        if importers:
            raise ValidationError(
                f"Export of {stack.name} cannot be deleted as it is in use by "
                + ", ".join(importers)
            )
        with self._lock:
            if stack.in_progress:
                raise ValidationError(
                    f"Stack:{stack.id} is in {stack.status} state and can not be deleted."
                )
            stack.deleted = utc_now()  # which a stack that could not be deleted has too
            stack.set_status("DELETE_IN_PROGRESS", "User Initiated")

        def work() -> None:
            calls = ResourceCalls(stack, self.aws)
            for resource in calls.delete_all(stack.resources.values(), retained=retained):
                del stack.resources[resource.logical_id]
            if left := ", ".join(stack.resources):
                reason = f"The following resource(s) failed to delete: [{left}]. "
                stack.set_status("DELETE_FAILED", reason)
            else:
                stack.set_status("DELETE_COMPLETE")

        self._start(stack, work, failed="DELETE_FAILED")

    def _start(self, stack: Stack, work: Callable[[], None], *, failed: str) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                traceback.print_exc()
                stack.set_status(failed, f"Internal failure of the local AWS: {error!r}")

        threading.Thread(target=guarded, name=f"deploy {stack.name}", daemon=True).start()
