"""What is done to a stack: deploying and deleting, each by a thread of its own."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.changes import ChangeSets
from servable_local.aws.cloudformation.deployment import StackDeployment
from servable_local.aws.cloudformation.intrinsics import TemplateError
from servable_local.aws.cloudformation.resource_calls import Handling
from servable_local.aws.cloudformation.stacks import Stack, Stacks, now
from servable_local.aws.cloudformation.template import parse, resolved_parameters
from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback

_UPDATABLE = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_FAILED",
)


class Operations:
    """Calls return at once, as CloudFormation's do."""

    def __init__(self, stacks: Stacks, aws: Loopback) -> None:
        self.stacks = stacks
        self._aws = aws

    def bind(self, stack: Stack, text: str, parameters: dict[str, str]) -> BoundTemplate:
        """Raises `ValidationError` for what can be seen before anything is made."""
        template = parse(text)
        values = resolved_parameters(template, parameters, self._aws)
        return BoundTemplate(stack, template, values, self.stacks.exports())

    def check_updatable(self, stack: Stack) -> None:
        if stack.status not in _UPDATABLE:
            raise ValidationError(
                f"Stack:{stack.id} is in {stack.status} state and can not be updated."
            )

    def deploy(self, stack: Stack, text: str, parameters: dict[str, str], **about: Any) -> None:
        """Starts the deployment. `about` are fields of the stack, such as tags."""
        blueprint = self.bind(stack, text, parameters)
        with self.stacks.lock:
            creating = stack.status == "REVIEW_IN_PROGRESS"
            if not creating:
                self.check_updatable(stack)
            verb = "CREATE" if creating else "UPDATE"
            stack.set_status(f"{verb}_IN_PROGRESS", "User Initiated")
        before = {name: getattr(stack, name) for name in ("template", "template_text")}
        before |= {name: getattr(stack, name) for name in ("parameters", "resolved", *about)}
        after = {
            "template": blueprint.template,
            "template_text": text,
            "parameters": parameters,
            "resolved": {
                name: str(value)
                for name, value in blueprint.parameters.items()
                if value != parameters[name] and isinstance(value, str)
            },
            **about,
        }
        _set(stack, after)
        stack.updated = None if creating else now()

        def publish(outputs: list[dict[str, Any]]) -> None:
            taken = self.stacks.exports(besides=stack)
            for output in outputs:
                if output.get("ExportName") in taken:
                    raise TemplateError(
                        f"Export with name {output['ExportName']} is already exported by "
                        "another stack"
                    )

        deployment = StackDeployment(
            stack, blueprint, Handling(stack, self._aws), verb=verb, publish=publish
        )

        def work() -> None:
            if not deployment.run() and not creating and not stack.disable_rollback:
                _set(stack, before)

        self._start(stack, work, failed=f"{verb}_FAILED")

    def delete(self, stack: Stack, retained: frozenset[str] = frozenset()) -> None:
        if stack.status == "DELETE_COMPLETE":
            return
        if stack.termination_protection:
            raise ValidationError(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        importers = sorted(self._importers(stack))
        if importers:
            raise ValidationError(
                f"Export of {stack.name} cannot be deleted as it is in use by "
                + ", ".join(importers)
            )
        with self.stacks.lock:
            if stack.in_progress:
                raise ValidationError(
                    f"Stack:{stack.id} is in {stack.status} state and can not be deleted."
                )
            stack.set_status("DELETE_IN_PROGRESS", "User Initiated")

        def work() -> None:
            handling = Handling(stack, self._aws)
            doomed = [r for r in stack.resources.values() if r.logical_id not in retained]
            gone = handling.delete_all(doomed)
            left = [r.logical_id for r in doomed if r not in gone]
            for resource in gone:
                stack.resources.pop(resource.logical_id, None)
            if left:
                stack.set_status(
                    "DELETE_FAILED",
                    f"The following resource(s) failed to delete: [{', '.join(left)}].",
                )
            else:
                stack.outputs, stack.deleted = [], now()
                stack.set_status("DELETE_COMPLETE")

        self._start(stack, work, failed="DELETE_FAILED")

    def _importers(self, stack: Stack) -> set[str]:
        own = {output["ExportName"] for output in stack.outputs if "ExportName" in output}
        return {
            other.name
            for other in self.stacks.all()
            if other is not stack
            and other.status != "DELETE_COMPLETE"
            and own
            and any(f'"{name}"' in other.template_text for name in own)
        }

    def _start(self, stack: Stack, work: Callable[[], None], *, failed: str) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                traceback.print_exc()
                stack.set_status(failed, f"Internal failure of the embedded AWS: {error!r}")

        threading.Thread(target=guarded, name=f"deploy {stack.name}", daemon=True).start()


def _set(stack: Stack, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(stack, name, value)


class CloudFormation:
    """Everything that CloudFormation knows of one account and region, while the server lives."""

    def __init__(self, aws: Loopback) -> None:
        self.aws = aws
        self.stacks = Stacks(aws)
        self.operations = Operations(self.stacks, aws)
        self.change_sets = ChangeSets()
