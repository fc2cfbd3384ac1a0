"""Interface of every emulated resource type: create, update and delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore import xform_name

from servable_local.aws.loopback import Loopback
from servable_local.aws.resources.shapes import Properties, ResourceError, fit


@dataclass(frozen=True)
class Physical:
    """A resource that exists: Ref answers `physical_id`, GetAtt answers `attributes`."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Logical:
    """One logical resource of one stack, and the services to make it with."""

    aws: Loopback
    logical_id: str
    generate_name: Callable[[int], str]
    # Called as soon as something exists, so that a later failure can be cleaned up.
    exists: Callable[[str], None]

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def call(self, service: str, operation: str, arguments: Properties) -> Any:
        """The operation's answer, by its API name. Raises `ResourceError` for what does not fit."""
        method = getattr(self.client(service), xform_name(operation))
        return method(**fit(arguments, service, operation))

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.aws.region}:{self.aws.account}:{resource}"


class ResourceType:
    """One CloudFormation type. A subclass anywhere in servable_local/aws/resources/ is deployed.

    `create_only` are the properties whose change makes a new resource; `name_property` is
    the one that names it, for CloudFormation cannot replace what has a fixed name. `emulated`
    are the properties that are known, where no API says it. `required` are those that CloudFormation
    misses before it calls a service (its resource schemas, 2026-11-28). `deletion` is the service, the
    operation, and the argument that takes the physical name, where that alone deletes it.
    """

    type: ClassVar[str]
    create_only: ClassVar[frozenset[str]] = frozenset()
    name_property: ClassVar[str | None] = None
    longest_name: ClassVar[int] = 255
    emulated: ClassVar[frozenset[str] | None] = None
    required: ClassVar[tuple[str, ...]] = ()
    deletion: ClassVar[tuple[str, str, str]]

    def check(self, properties: Properties) -> None:
        """Raises `ResourceError` for one that is missing, and for one that would be left out in silence."""
        if missing := [name for name in self.required if name not in properties]:
            wanted = ", ".join(f"The property {{/{name}}} is required" for name in missing)
            raise ResourceError(f"Property validation failure: [{wanted}]")
        unknown = sorted(set(properties) - (self.emulated or set(properties)))
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(unknown)} is not emulated")

    def name(self, properties: Properties, logical: Logical) -> str:
        """The name in the template or, left out there, one as CloudFormation makes it."""
        stated = properties.get(self.name_property) if self.name_property else None
        return str(stated or logical.generate_name(self.longest_name))

    def create(self, properties: Properties, logical: Logical) -> Physical:
        return self.put(self.name(properties, logical), {}, properties, logical)

    def imported(self, identifier: Mapping[str, str], logical: Logical) -> Physical:
        """A resource that exists already. Raises `ResourceError`, or the service's error if it does not."""
        raise ResourceError(f"Resource type {self.type} is not supported for import here")

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        return self.put(physical, old, new, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        """Creates and updates, where the service has one operation for both. New: `old` is empty."""
        raise NotImplementedError

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        service, operation, name = self.deletion
        logical.call(service, operation, {name: physical})


def changed_tags(old: Properties, new: Properties) -> tuple[list[dict[str, str]], list[str]]:
    """Tags that are new or have another value, and the keys of those that are gone."""
    before, after = tags_as_map(old.get("Tags", [])), tags_as_map(new.get("Tags", []))
    tags = [{"Key": k, "Value": v} for k, v in after.items() if before.get(k) != v]
    return tags, [key for key in before if key not in after]


def retag(
    logical: Logical,
    service: str,
    resource: Properties,
    old: Properties,
    new: Properties,
    operations: tuple[str, str] = ("TagResource", "UntagResource"),
    arguments: tuple[str, str] = ("Tags", "TagKeys"),
    shaped: Callable[[Sequence[Properties]], Any] = list,
) -> None:
    """Calls the service for what differs between the `Tags`. `resource`: the argument that names it.

    `arguments`: those of tags, in the service's own form by `shaped`, and of the keys that are gone.
    """
    tags, keys = changed_tags(old, new)
    if tags:
        logical.call(service, operations[0], {**resource, arguments[0]: shaped(tags)})
    if keys:
        logical.call(service, operations[1], {**resource, arguments[1]: keys})


def tags_as_map(tags: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The form that some services take: {key: value}."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}
