"""One resource, one call, one pair of events: what a deployment does, and how it fails."""

import functools
import logging
import secrets
import string
from collections.abc import Callable, Iterable, Mapping

from botocore.exceptions import ClientError, ParamValidationError

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import DynamicReferences
from servable_local.aws.cloudformation.stacks import Stack, StackResource
from servable_local.aws.cloudformation.template import creation_order
from servable_local.aws.loopback import Loopback
from servable_local.aws.resources import TYPES
from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    tags_as_map,
)
from servable_scaling.intrinsics import TemplateError

_LETTERS = string.ascii_uppercase + string.digits
_ENDING_LENGTH = 12
# What outlives its stack, or is paid for: what somebody looks for by its tags.
_TAGGED = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SageMaker::Endpoint")
# Types that CDK adds to a template, and what to change in the app: no function runs here.
_LEAVE_OUT = {
    "Custom::AWS": "leave out AwsCustomResource, and make its call yourself.",
    "Custom::S3AutoDeleteObjects": (
        "leave out auto_delete_objects, and empty the bucket before you delete the stack."
    ),
}
_log = logging.getLogger(__name__)


def physical_name(stack_name: str, logical_id: str, longest: int) -> str:
    """At most `longest` characters; the random ending is never cut."""
    ending = "".join(secrets.choice(_LETTERS) for _ in range(_ENDING_LENGTH))
    room = longest - _ENDING_LENGTH - 2
    logical = logical_id[: max(room // 2, room - len(stack_name))]
    stack = stack_name[: room - len(logical)]
    return f"{stack}-{logical}-{ending}"


def reason_of(error: Exception) -> str:
    if isinstance(error, ClientError):
        answer = error.response
        return (
            f"{answer['Error'].get('Message') or error} (Service: {error.operation_name}, "
            f"Status Code: {answer['ResponseMetadata'].get('HTTPStatusCode')}, "
            f"Error Code: {answer['Error'].get('Code')})"
        )
    if isinstance(error, ParamValidationError):
        return "Properties validation failed: " + "; ".join(str(error).splitlines()[1:])
    if isinstance(error, ResourceError | TemplateError):
        return str(error)
    _log.exception("a resource type raised")
    return f"Internal failure of the local AWS: {type(error).__name__}: {error}"


class ResourceFailedError(Exception):
    """A resource could not be made or changed; its event is written. `str()`: for the stack."""


class ResourceCalls:
    """Calls the resource types for one stack and writes the events."""

    def __init__(self, stack: Stack, aws: Loopback) -> None:
        self._stack = stack
        self._aws = aws
        self._stored = DynamicReferences(aws)

    def type_of(self, resource: StackResource) -> ResourceType:
        kind = TYPES.get(resource.type)
        if kind is None:
            advice = _LEAVE_OUT.get(resource.type, f"it knows {', '.join(sorted(TYPES))}.")
            raise self._failed(
                resource,
                "CREATE",
                f"Resource type {resource.type} is not emulated by the local AWS; {advice}",
            )
        return kind

    def create(self, resource: StackResource, replaces: StackResource | None = None) -> None:
        kind = self.type_of(resource)
        reason, shown, verb = None, None, "CREATE"
        if replaces:
            reason = "Requested update requires the creation of a new physical resource; hence creating one."
            shown, verb = replaces.physical_id, "UPDATE"
        self._event(resource, f"{verb}_IN_PROGRESS", reason, physical_id=shown)

        def create() -> Physical:
            kind.check(resource.properties)
            properties = self._tagged(self._stored.reveal(resource.properties), kind)
            return kind.create(properties, self._logical(resource))

        self._settle(resource, verb, create, begun="Resource creation Initiated")
        self._event(resource, f"{verb}_COMPLETE")

    def adopt(self, resource: StackResource, identifier: Mapping[str, str]) -> None:
        """Take over what exists already, as an import does: nothing of it is changed."""
        kind = self.type_of(resource)
        self._event(resource, "IMPORT_IN_PROGRESS", "Resource import started.")
        self._settle(resource, "IMPORT", lambda: kind.imported(identifier, self._logical(resource)))
        self._event(resource, "IMPORT_COMPLETE", "Resource import completed.")

    def update(self, current: StackResource, resource: StackResource) -> None:
        kind = self.type_of(resource)
        physical_id, old = current.physical_id, self._tagged(current.properties, kind)
        resource.physical_id, resource.attributes = physical_id, dict(current.attributes)
        self._event(resource, "UPDATE_IN_PROGRESS")

        def update() -> Physical:
            new = self._tagged(self._stored.reveal(resource.properties), kind)
            return kind.update(physical_id, old, new, self._logical(resource))

        self._settle(resource, "UPDATE", update)
        self._event(resource, "UPDATE_COMPLETE")

    def _tagged(self, properties: Properties, kind: ResourceType) -> Properties:
        """The properties with the stack's tags, for the types that tags find again; their own win.

        On AWS every type that takes tags gets them:
        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
        (2026-11-28). A change of the stack's tags alone is not carried over here.
        """
        if not self._stack.tags or kind.type not in _TAGGED:
            return properties
        tags = self._stack.tags | tags_as_map(properties.get("Tags", []))
        return {**properties, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}

    def _settle(
        self,
        resource: StackResource,
        verb: str,
        call: Callable[[], Physical],
        begun: str | None = None,
    ) -> None:
        """`begun`: the reason of an event as soon as there is a physical id."""
        try:
            physical = call()
        except Exception as error:
            if begun and resource.physical_id:
                self._event(resource, f"{verb}_IN_PROGRESS", begun)
            raise self._failed(resource, verb, reason_of(error)) from error
        resource.physical_id, resource.attributes = physical.physical_id, dict(physical.attributes)
        if begun:
            self._event(resource, f"{verb}_IN_PROGRESS", begun)

    def refuse_fixed_name(self, current: StackResource, resource: StackResource) -> None:
        name = TYPES[resource.type].name_property
        if name is None or current.type != resource.type or name not in resource.properties:
            return
        if current.properties.get(name) == resource.properties[name]:
            raise self._failed(
                resource,
                "UPDATE",
                "CloudFormation cannot update a stack when a custom-named resource requires "
                f"replacing. Rename {resource.properties[name]} and update the stack again.",
            )

    def delete_all(
        self,
        resources: Iterable[StackResource],
        *,
        replaced: bool = False,
        cleanup: bool = False,
        rolling_back: bool = False,
        retained: frozenset[str] = frozenset(),
    ) -> list[StackResource]:
        """Deletes, what refers before what is referred to. Returns those that are gone.

        `replaced`: others have taken their places. `cleanup`: after an update, whose events say less.
        `retained`: names of those that are left where they are.
        """
        by_name = {resource.logical_id: resource for resource in resources}
        order = creation_order(
            {name: set(resource.depends_on) & set(by_name) for name, resource in by_name.items()}
        )
        gone = []
        for name in reversed(order):
            resource = by_name[name]
            event = functools.partial(self._event, resource, bare=cleanup)
            # RetainExceptOnCreate does not retain what is deleted because its own creation is rolled back.
            # https://aws.amazon.com/about-aws/whats-new/2023/07/aws-cloudformation-deletion-policies-dev-test-cycle/
            policies = ("Retain",) if rolling_back else ("Retain", "RetainExceptOnCreate")
            kept = resource.keep_on_replace if replaced else resource.deletion_policy in policies
            if kept or name in retained:
                event("DELETE_SKIPPED")
                gone.append(resource)
                continue
            event("DELETE_IN_PROGRESS")
            try:
                TYPES[resource.type].delete(
                    resource.physical_id, resource.properties, self._logical(resource)
                )
            except Exception as error:
                event("DELETE_FAILED", reason_of(error))
            else:
                event("DELETE_COMPLETE")
                gone.append(resource)
        return gone

    def _logical(self, resource: StackResource) -> Logical:
        names = (self._stack.name, resource.logical_id)
        return Logical(
            aws=self._aws,
            logical_id=resource.logical_id,
            generate_name=lambda longest: physical_name(*names, longest),
            exists=lambda physical_id: setattr(resource, "physical_id", physical_id),
        )

    def _event(
        self,
        resource: StackResource,
        status: str,
        reason: str | None = None,
        physical_id: str | None = None,
        *,
        bare: bool = False,
    ) -> None:
        resource.status, resource.reason, resource.changed = status, reason, utc_now()
        self._stack.record(
            resource.logical_id,
            resource.type,
            physical_id or resource.physical_id,
            status,
            reason,
            None if bare else resource.properties,
        )

    def _failed(self, resource: StackResource, verb: str, reason: str) -> ResourceFailedError:
        self._event(resource, f"{verb}_FAILED", reason)
        return ResourceFailedError(
            f"The following resource(s) failed to {verb.lower()}: [{resource.logical_id}]."
        )
