"""The operations on change sets, which `cdk deploy` and `cdk diff` use unless told otherwise."""

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudformation.change_set import NO_CHANGES, ChangeSet
from servable_local.aws.cloudformation.errors import (
    AlreadyExistsError,
    ChangeSetNotFoundError,
    ValidationError,
)
from servable_local.aws.cloudformation.plan import plan
from servable_local.aws.cloudformation.stack import Stack
from servable_local.aws.cloudformation.stack_api import StackApi
from servable_local.aws.cloudformation.template import parse


class CloudFormationApi(StackApi):
    """All of it: stacks and change sets."""

    def create_change_set(self) -> ActionResult:
        kind = self._get_param("ChangeSetType") or "UPDATE"
        if kind == "IMPORT":
            raise ValidationError("Importing resources is not emulated.")
        name, stack_name = self._get_param("ChangeSetName"), self._get_param("StackName")
        stack = self.here.stacks.live(stack_name)
        if kind == "CREATE":
            if stack is None:
                # Seen before the stack is registered: a bad template leaves no trace.
                self._chosen(self._text(), {})
                stack = self.here.stacks.register(stack_name)
                stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
            elif stack.status != "REVIEW_IN_PROGRESS":
                raise AlreadyExistsError(
                    f"Stack [{stack_name}] already exists and cannot be created."
                )
        elif stack is None:
            raise ValidationError(f"Stack [{stack_name}] does not exist")
        else:
            self.here.operations.check_updatable(stack)
        if self.here.change_sets.find(name, stack):
            raise AlreadyExistsError(f"ChangeSet {name} already exists")
        change_set = self._planned(name, stack, kind)
        self.here.change_sets.add(change_set)
        return ActionResult({"Id": change_set.id, "StackId": stack.id})

    def _planned(self, name: str, stack: Stack, kind: str) -> ChangeSet:
        text = self._text(stack.template_text)
        change_set = ChangeSet(
            name=name,
            stack=stack,
            text=text,
            parameters=self._chosen(text, stack.parameters),
            changes=[],
            about=self._about(stack),
            description=self._get_param("Description"),
            kind=kind,
        )
        on_failure = self._get_param("OnStackFailure")
        change_set.about["disable_rollback"] = on_failure == "DO_NOTHING"
        try:
            blueprint = self.here.operations.bind(stack, text, change_set.parameters)
            change_set.changes = plan(stack, blueprint)
        except ValidationError as error:
            change_set.fail(error.message)
            return change_set
        same_tags = change_set.about["tags"] == stack.tags
        if kind == "UPDATE" and not change_set.changes and same_tags:
            old, new = stack.template, parse(text)
            if old.get("Outputs") == new.get("Outputs") or old == new:
                change_set.fail(NO_CHANGES)
        return change_set

    def _found(self) -> ChangeSet:
        name = self._get_param("StackName")
        stack = self.here.stacks.live(name) if name else None
        return self.here.change_sets.get(self._get_param("ChangeSetName"), stack)

    def describe_change_set(self) -> ActionResult:
        return ActionResult(self._found().describe())

    def execute_change_set(self) -> ActionResult:
        change_set = self._found()
        if change_set.execution_status != "AVAILABLE":
            raise ValidationError(
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of "
                f"[{change_set.status}]"
            )
        about = dict(change_set.about)
        if self._get_param("DisableRollback") is not None:
            about["disable_rollback"] = bool(self._get_param("DisableRollback"))
        self.here.operations.deploy(
            change_set.stack, change_set.text, change_set.parameters, **about
        )
        # CloudFormation drops every other change set of the stack with it.
        for one in self.here.change_sets.of(change_set.stack):
            self.here.change_sets.remove(one)
        change_set.execution_status = "EXECUTE_COMPLETE"
        return EmptyResult()

    def delete_change_set(self) -> ActionResult:
        try:
            self.here.change_sets.remove(self._found())
        except ChangeSetNotFoundError:
            pass  # deleting twice is no error
        return EmptyResult()

    def list_change_sets(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        return ActionResult({"Summaries": [o.summary() for o in self.here.change_sets.of(stack)]})
