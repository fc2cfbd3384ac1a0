"""The call and the events of one resource: what a deployment does, and how it fails."""

import functools
import logging
import secrets
import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import ClientError, ParamValidationError

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import DynamicReferences
from servable_local.aws.cloudformation.stacks import Stack, StackResource
from servable_local.aws.cloudformation.template import compute_creation_order
from servable_local.aws.loopback import Loopback
from servable_local.aws.resources import TYPES
from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    map_tags,
)
from servable_scaling.intrinsics import TemplateError

_LETTERS = string.ascii_uppercase + string.digits
_ENDING_LENGTH = 12
# Resources that outlive their stack, or cost money: users find them by tags.
_TAGGED = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SageMaker::Endpoint")
# Types that CDK adds to a template, and what to change in the app: no function runs here.
_LEAVE_OUT = {
    "Custom::AWS": "remove AwsCustomResource, and call its API yourself.",
    "Custom::LogRetention": "pass log_group instead of log_retention.",
    "Custom::S3BucketNotifications": "set notification_configuration of a CfnBucket.",
    "Custom::VpcRestrictDefaultSG": "set restrict_default_security_group=False.",
    "Custom::S3AutoDeleteObjects": (
        "remove auto_delete_objects, and empty the bucket before you delete the stack."
    ),
}
_log = logging.getLogger(__name__)


def generate_physical_name(stack_name: str, logical_id: str, longest: int) -> str:
    """Return a name of at most `longest` characters; the random ending is never cut."""
    ending = "".join(secrets.choice(_LETTERS) for _ in range(_ENDING_LENGTH))
    room = longest - _ENDING_LENGTH - 2
    logical = logical_id[: max(room // 2, room - len(stack_name))]
    stack = stack_name[: room - len(logical)]
    return f"{stack}-{logical}-{ending}"


def explain_error(error: Exception) -> str:
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


def _keep(resource: StackResource, made: Physical) -> None:
    resource.physical_id, resource.attributes = made.physical_id, dict(made.attributes)


class ResourceFailedError(Exception):
    """A resource couldn't be created or changed. Its event is recorded; `str()` is for the stack."""


class ResourceCalls:
    """The calls of resource types for one stack, with their events."""

    def __init__(self, stack: Stack, aws: Loopback) -> None:
        self._stack = stack
        self._aws = aws
        self._stored = DynamicReferences(aws)

    def find_type(self, resource: StackResource) -> ResourceType:
        kind = TYPES.get(resource.type)
        if kind is None:
            advice = _LEAVE_OUT.get(resource.type, f"it emulates {', '.join(sorted(TYPES))}.")
            problem = f"Resource type {resource.type} is not emulated by the local AWS; {advice}"
            raise self._record_failure(resource, "CREATE", problem)
        return kind

    def create(self, resource: StackResource, replaces: StackResource | None = None) -> None:
        kind = self.find_type(resource)
        reason, shown, verb = None, None, "CREATE"
        if replaces:
            reason = "Requested update requires the creation of a new physical resource; hence creating one."
            shown, verb = replaces.physical_id, "UPDATE"
        self._record_event(resource, f"{verb}_IN_PROGRESS", reason, physical_id=shown)
        with self._record_failure_of_call(resource, verb, begun="Resource creation Initiated"):
            kind.check(resource.properties)
            properties = self._add_stack_tags(self._stored.reveal(resource.properties), kind)
            _keep(resource, kind.create(properties, self._build_logical(resource)))
        self._record_event(resource, f"{verb}_COMPLETE")

    def adopt(self, resource: StackResource, identifier: Mapping[str, str]) -> None:
        """Take over an existing resource, as an import does, without changing it."""
        kind = self.find_type(resource)
        self._record_event(resource, "IMPORT_IN_PROGRESS", "Resource import started.")
        with self._record_failure_of_call(resource, "IMPORT"):
            _keep(resource, kind.import_existing(identifier, self._build_logical(resource)))
        self._record_event(resource, "IMPORT_COMPLETE", "Resource import completed.")

    def update(self, current: StackResource, resource: StackResource) -> None:
        kind = self.find_type(resource)
        physical_id, old = current.physical_id, self._add_stack_tags(current.properties, kind)
        resource.physical_id, resource.attributes = physical_id, dict(current.attributes)
        self._record_event(resource, "UPDATE_IN_PROGRESS")
        with self._record_failure_of_call(resource, "UPDATE"):
            kind.check(resource.properties)
            new = self._add_stack_tags(self._stored.reveal(resource.properties), kind)
            _keep(resource, kind.update(physical_id, old, new, self._build_logical(resource)))
        self._record_event(resource, "UPDATE_COMPLETE")

    def _add_stack_tags(self, properties: Properties, kind: ResourceType) -> Properties:
        """Return the properties with the stack's tags added, for types that users find by tags.

        The resource's own tags win. On AWS every type that takes tags gets them:
        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
        (2026-11-28). Here, a change of only the stack's tags isn't propagated.
        """
        if not self._stack.tags or kind.type not in _TAGGED:
            return properties
        tags = self._stack.tags | map_tags(properties.get("Tags", []))
        return {**properties, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}

    @contextmanager
    def _record_failure_of_call(
        self, resource: StackResource, verb: str, begun: str | None = None
    ) -> Iterator[None]:
        """Record an exception. `begun`: the reason of an event recorded once there is a physical ID."""
        try:
            yield
        except Exception as error:
            if begun and resource.physical_id:
                self._record_event(resource, f"{verb}_IN_PROGRESS", begun)
            raise self._record_failure(resource, verb, explain_error(error)) from error
        if begun:
            self._record_event(resource, f"{verb}_IN_PROGRESS", begun)

    def reject_unchangeable(self, resource: StackResource, changed: Collection[str]) -> None:
        if names := sorted(self.find_type(resource).unchangeable.intersection(changed)):
            problem = f"{resource.type}: changing {', '.join(names)} is not emulated"
            raise self._record_failure(resource, "UPDATE", problem)

    def reject_fixed_name(self, current: StackResource, resource: StackResource) -> None:
        name = TYPES[resource.type].name_property
        if name is None or current.type != resource.type or name not in resource.properties:
            return
        if current.properties.get(name) == resource.properties[name]:
            problem = (
                "CloudFormation cannot update a stack when a custom-named resource requires "
                f"replacing. Rename {resource.properties[name]} and update the stack again."
            )
            raise self._record_failure(resource, "UPDATE", problem)

    def delete_all(
        self,
        resources: Iterable[StackResource],
        *,
        replaced: bool = False,
        cleanup: bool = False,
        rolling_back: bool = False,
        retained: frozenset[str] = frozenset(),
    ) -> list[StackResource]:
        """Delete resources, dependent ones first. Return those that are gone.

        `replaced`: new resources have replaced them. `cleanup`: after an update, with less
        detailed events. `retained`: names of resources that aren't deleted.
        """
        by_name = {resource.logical_id: resource for resource in resources}
        waits_for = {name: set(each.depends_on) & set(by_name) for name, each in by_name.items()}
        gone = []
        for name in reversed(compute_creation_order(waits_for)):
            resource = by_name[name]
            event = functools.partial(self._record_event, resource, bare=cleanup)
            # RetainExceptOnCreate does not retain what is deleted because its own creation is rolled back.
            # https://aws.amazon.com/about-aws/whats-new/2023/07/aws-cloudformation-deletion-policies-dev-test-cycle/
            policies = ("Retain",) if rolling_back else ("Retain", "RetainExceptOnCreate")
            kept = resource.keep_on_replace if replaced else resource.deletion_policy in policies
            if kept or name in retained:
                event("DELETE_SKIPPED")
                gone.append(resource)
                continue
            event("DELETE_IN_PROGRESS")
            kind, logical = TYPES[resource.type], self._build_logical(resource)
            try:
                kind.delete(resource.physical_id, resource.properties, logical)
            except Exception as error:
                event("DELETE_FAILED", explain_error(error))
            else:
                event("DELETE_COMPLETE")
                gone.append(resource)
        return gone

    def _build_logical(self, resource: StackResource) -> Logical:
        names = (self._stack.name, resource.logical_id)
        return Logical(
            aws=self._aws,
            logical_id=resource.logical_id,
            generate_name=lambda longest: generate_physical_name(*names, longest),
            exists=lambda physical_id: setattr(resource, "physical_id", physical_id),
        )

    def _record_event(
        self,
        resource: StackResource,
        status: str,
        reason: str | None = None,
        physical_id: str | None = None,
        *,
        bare: bool = False,
    ) -> None:
        resource.status, resource.reason, resource.changed = status, reason, utc_now()
        self._stack.record_event(
            resource.logical_id,
            resource.type,
            physical_id or resource.physical_id,
            status,
            reason,
            None if bare else resource.properties,
        )

    def _record_failure(
        self, resource: StackResource, verb: str, reason: str
    ) -> ResourceFailedError:
        self._record_event(resource, f"{verb}_FAILED", reason)
        failed = f"failed to {verb.lower()}: [{resource.logical_id}]."
        return ResourceFailedError(f"The following resource(s) {failed}")
