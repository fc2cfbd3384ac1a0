"""Every stack of one account and region, by name and by id."""

import threading
import uuid

from servable_local.aws.cloudformation.errors import AlreadyExistsError, ValidationError
from servable_local.aws.cloudformation.stack import Stack
from servable_local.aws.loopback import Loopback


class Stacks:
    """The register. What is done to a stack: operations.py."""

    def __init__(self, aws: Loopback) -> None:
        self._aws = aws
        self._stacks: dict[str, Stack] = {}
        self.lock = threading.RLock()

    def all(self) -> list[Stack]:
        with self.lock:
            return list(self._stacks.values())

    def live(self, name_or_id: str) -> Stack | None:
        """The stack of that name that is not deleted, or of that id even if it is."""
        with self.lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
            return next(
                (
                    stack
                    for stack in self._stacks.values()
                    if stack.name == name_or_id and stack.status != "DELETE_COMPLETE"
                ),
                None,
            )

    def get(self, name_or_id: str) -> Stack:
        stack = self.live(name_or_id)
        if stack is None:
            raise ValidationError(f"Stack with id {name_or_id} does not exist")
        return stack

    def exports(self, besides: Stack | None = None) -> dict[str, str]:
        return {
            output["ExportName"]: output["OutputValue"]
            for stack in self.all()
            if stack is not besides
            for output in stack.outputs
            if "ExportName" in output
        }

    def register(self, name: str) -> Stack:
        """A stack that is only a name yet. Raises `AlreadyExistsError`."""
        with self.lock:
            if self.live(name) is not None:
                raise AlreadyExistsError(f"Stack [{name}] already exists")
            arn = (
                f"arn:aws:cloudformation:{self._aws.region}:{self._aws.account}:"
                f"stack/{name}/{uuid.uuid4()}"
            )
            stack = Stack(
                id=arn,
                name=name,
                account=self._aws.account,
                region=self._aws.region,
                status="REVIEW_IN_PROGRESS",
            )
            self._stacks[arn] = stack
            return stack

    def forget(self, stack: Stack) -> None:
        with self.lock:
            self._stacks.pop(stack.id, None)
