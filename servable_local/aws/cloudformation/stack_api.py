"""The operations that make, change and delete stacks."""

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudformation.errors import ValidationError
from servable_local.aws.cloudformation.reading_api import ReadingApi
from servable_local.aws.cloudformation.template import parse


class StackApi(ReadingApi):
    def create_stack(self) -> ActionResult:
        text = self._text()
        values = self._chosen(text, {})
        stack = self.here.stacks.register(self._get_param("StackName"))
        stack.termination_protection = bool(self._get_param("EnableTerminationProtection"))
        keep = self._get_param("DisableRollback") or self._get_param("OnFailure") == "DO_NOTHING"
        try:
            self.here.operations.deploy(
                stack, text, values, **self._about(), disable_rollback=bool(keep)
            )
        except Exception:
            self.here.stacks.forget(stack)
            raise
        return ActionResult({"StackId": stack.id})

    def update_stack(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        text = self._text(stack.template_text)
        values = self._chosen(text, stack.parameters)
        self.here.operations.check_updatable(stack)
        about = self._about(stack)
        same = parse(text) == stack.template and values == stack.parameters
        if same and about["tags"] == stack.tags and stack.status != "UPDATE_FAILED":
            raise ValidationError("No updates are to be performed.")
        keep = bool(self._get_param("DisableRollback"))
        self.here.operations.deploy(stack, text, values, **about, disable_rollback=keep)
        return ActionResult({"StackId": stack.id})

    def delete_stack(self) -> ActionResult:
        stack = self.here.stacks.live(self._get_param("StackName"))
        if stack is not None:
            self.here.operations.delete(stack, frozenset(self._get_param("RetainResources", [])))
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        stack.termination_protection = bool(self._get_param("EnableTerminationProtection"))
        return ActionResult({"StackId": stack.id})
