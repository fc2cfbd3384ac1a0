"""Interface of every emulated resource type, and how template values become what an API takes.

CloudFormation accepts "5" for 5 and "true" for true; an API does not. A property that the
API does not know is refused by name: nothing in a template is silently left out.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore import xform_name
from botocore.validate import ParamValidator

from servable_local.aws.loopback import Loopback, service_model

Properties = Mapping[str, Any]
# Java's classes, and its pairs for the characters beyond U+FFFF, as Python writes them. `\w` stands for
# letters and numbers and accepts the underscore, which every pattern that has these two accepts too.
_JAVA = {
    r"[\p{Print}]": "[ -~]",
    r"\p{Print}": "[ -~]",
    r"\p{ASCII}": r"[\x00-\x7f]",
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": r" \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\uD800\uDC00-\uDBFF\uDFFF": r"\U00010000-\U0010ffff",
    r"\z": r"\Z",
}
_NUMBERS = ("integer", "long", "float", "double")


class ResourceError(Exception):
    """A service refused or failed. `str()` is the reason that CloudFormation shows."""


def fit(properties: Properties, service: str, operation: str) -> dict[str, Any]:
    """The operation's arguments. Raises `ResourceError` for a word that the API does not know.

    What does not fit otherwise stays as it is: botocore refuses it by name, in whatever is called
    with it.
    """
    shape = service_model(service).operation_model(operation).input_shape
    return {key: _fit(item, shape.members.get(key), f"/{key}") for key, item in properties.items()}


def _fit(value: Any, shape: Any, path: str) -> Any:
    kind = shape.type_name if shape is not None else None
    if kind == "structure" and isinstance(value, Mapping):
        return {k: _fit(item, shape.members.get(k), f"{path}/{k}") for k, item in value.items()}
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_fit(item, shape.member, f"{path}/{n}") for n, item in enumerate(items)]
    if kind == "map" and isinstance(value, Mapping):
        return {key: _fit(item, shape.value, f"{path}/{key}") for key, item in value.items()}
    if kind == "string":
        return _string(value, shape, path)
    if kind == "boolean" and str(value).lower() in ("true", "false"):
        return is_true(value)
    if kind in _NUMBERS and not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return value
        return int(number) if kind in ("integer", "long") and number.is_integer() else number
    return value


def _string(value: Any, shape: Any, path: str) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value)  # a policy document, for example
    text = str(value).lower() if isinstance(value, bool) else str(value)
    allowed = getattr(shape, "enum", None)
    if allowed and text not in allowed:
        raise ResourceError(
            f"{path}: {text} is not a valid enum value; allowed: {', '.join(allowed)}"
        )
    return text


def is_true(value: Any) -> bool:
    """CloudFormation takes "true" for true."""
    return str(value).lower() == "true"


def unmet(request: dict[str, Any], service: str, operation: str) -> list[str]:
    """Limits that botocore's model of a service states: lengths, sizes, numbers, patterns.

    botocore itself checks only the lower ones before it sends; AWS checks all of them, and says
    every one that is not met, in these words. Values are not repeated: they may be secrets.
    """
    shape = service_model(service).operation_model(operation).input_shape
    misfits = ParamValidator().validate(request, shape)
    if misfits.has_errors():
        return [str(misfits.generate_report())]
    return [violation(where, must) for where, _, _, must in violations(request, shape)]


def refusal(problems: list[str]) -> str:
    """Message of a refusal for what `unmet` lists."""
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
    return count + "; ".join(problems)


def lower_names(properties: Properties) -> dict[str, Any]:
    """Names that begin with a small letter, as some APIs have them."""
    return {name[0].lower() + name[1:]: value for name, value in properties.items()}


@functools.cache
def _python_pattern(java: str) -> "re.Pattern[str] | None":
    """Return a service model's pattern, or None for one that Python's `re` can't express."""
    pattern = java.removeprefix("^").removesuffix("$")
    for written, translated in _JAVA.items():
        pattern = pattern.replace(written, translated)
    try:
        return None if "\\p{" in pattern else re.compile(pattern)
    except re.error:
        return None


def broken(value: Any, shape: Any) -> Iterator[str]:
    """What a string, a list, a map or a number must be, and is not; its pattern first, as AWS says it."""
    kind, limits = shape.type_name, shape.metadata
    if kind == "structure" or kind in ("boolean", "timestamp"):
        return
    stated = limits.get("pattern", "")
    pattern = _python_pattern(stated) if stated and kind == "string" else None
    if pattern is not None and not pattern.fullmatch(value):
        yield f"satisfy regular expression pattern: {stated}"
    size, what = (value, "value") if kind in _NUMBERS else (len(value), "length")
    if size > limits.get("max", size):
        yield f"have {what} less than or equal to {limits['max']}"
    if size < limits.get("min", size):
        yield f"have {what} greater than or equal to {limits['min']}"
    if kind == "string" and shape.enum and value not in shape.enum:
        yield f"satisfy enum value set: [{', '.join(shape.enum)}]"


def violations(value: Any, shape: Any, where: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """Place, value, shape and what it must be, of everything in a request that is not."""
    for must in broken(value, shape):
        yield where, value, shape, must
    kind = shape.type_name
    if kind == "structure":
        for key, item in value.items():
            name = key[0].lower() + key[1:]
            if item is not None and key in shape.members:
                inner = f"{where}.{name}" if where else name
                yield from violations(item, shape.members[key], inner)
    elif kind == "list":
        for number, item in enumerate(value, start=1):  # AWS counts from one here
            yield from violations(item, shape.member, f"{where}.{number}.member")
    elif kind == "map":
        for key, item in value.items():
            yield from violations(key, shape.key, where)
            yield from violations(item, shape.value, f"{where}.{key}.member")


def violation(where: str, must: str, said: str = "") -> str:
    return f"Value{said} at '{where}' failed to satisfy constraint: Member must {must}"


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
