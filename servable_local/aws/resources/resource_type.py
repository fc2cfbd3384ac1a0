"""What every emulated resource type answers: how it is made, changed and removed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from servable_local.aws.loopback import Loopback

Properties = Mapping[str, Any]


class ResourceError(Exception):
    """A service refused or failed. `str()` is the reason that CloudFormation shows."""


@dataclass(frozen=True)
class Made:
    """What exists now: Ref answers `physical_id`, GetAtt answers `attributes`."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One logical resource of one stack, and the services to make it with."""

    aws: Loopback
    stack_name: str
    logical_id: str
    generate_name: Callable[[int], str]
    # Called as soon as something exists, so that a later failure can be cleaned up.
    exists: Callable[[str], None]

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.aws.region}:{self.aws.account}:{resource}"

    def name(self, properties: Properties, key: str, *, longest: int = 255) -> str:
        """The name in the template or, left out there, one as CloudFormation makes it."""
        return str(properties.get(key) or self.generate_name(longest))


class ResourceType:
    """One CloudFormation type. Subclasses are listed in servable_local/aws/resources/registry.py.

    `create_only` are the properties whose change makes a new resource; `name_property` is
    the one that names it, for CloudFormation cannot replace what has a fixed name.
    """

    type: ClassVar[str]
    create_only: ClassVar[frozenset[str]] = frozenset()
    name_property: ClassVar[str | None] = None

    def create(self, properties: Properties, request: Request) -> Made:
        raise NotImplementedError

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        raise NotImplementedError

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        raise NotImplementedError
