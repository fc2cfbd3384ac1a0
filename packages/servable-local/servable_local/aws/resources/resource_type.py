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

from servable_local.aws.loopback import Loopback, load_service_model

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
    """A service rejected a call or failed. `str()` is the reason that CloudFormation shows."""


def convert_arguments(properties: Properties, service: str, operation: str) -> dict[str, Any]:
    """Return the operation's arguments. Raises `ResourceError` for an unknown enum value.

    Other invalid values stay as they are: botocore rejects them by name in the call that has
    them.
    """
    shape = load_service_model(service).operation_model(operation).input_shape
    arguments: dict[str, Any] = _convert_value(properties, shape, "")
    return arguments


def _convert_value(value: Any, shape: Any, path: str) -> Any:
    kind = shape.type_name if shape is not None else None
    if kind in ("structure", "map") and isinstance(value, Mapping):
        find = shape.members.get if kind == "structure" else lambda key: shape.value
        return {k: _convert_value(item, find(k), f"{path}/{k}") for k, item in value.items()}
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_convert_value(item, shape.member, f"{path}/{n}") for n, item in enumerate(items)]
    if kind == "string":
        return _convert_string(value, shape, path)
    if kind == "boolean" and str(value).lower() in ("true", "false"):
        return is_true(value)
    if kind in _NUMBERS and not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return value
        return int(number) if kind in ("integer", "long") and number.is_integer() else number
    return value


def _convert_string(value: Any, shape: Any, path: str) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value)  # a policy document, for example
    text = str(value).lower() if isinstance(value, bool) else str(value)
    allowed = getattr(shape, "enum", None)
    if allowed and text not in allowed:
        problem = f"{path}: {text} is not a valid enum value; allowed: {', '.join(allowed)}"
        raise ResourceError(problem)
    return text


def is_true(value: Any) -> bool:
    """Return whether a value is true or, as CloudFormation accepts it, "true"."""
    return str(value).lower() == "true"


def list_violations(request: dict[str, Any], service: str, operation: str) -> list[str]:
    """Return the violated limits of botocore's model: lengths, sizes, numbers, patterns.

    botocore itself only checks lower limits before it sends; AWS checks all of them, and reports
    each violation in this wording. Values aren't repeated: they may be secrets.
    """
    shape = load_service_model(service).operation_model(operation).input_shape
    misfits = ParamValidator().validate(request, shape)
    if misfits.has_errors():
        return [str(misfits.generate_report())]
    return [format_violation(where, must) for where, _, _, must in find_violations(request, shape)]


def format_violations(problems: list[str]) -> str:
    """Return the message that rejects a request for what `list_violations` returns."""
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
    return count + "; ".join(problems)


def lower_first_letters(properties: Properties) -> dict[str, Any]:
    """Return names that begin with a lowercase letter, as some APIs have them."""
    return {name[0].lower() + name[1:]: value for name, value in properties.items()}


@functools.cache
def _translate_pattern(java: str) -> "re.Pattern[str] | None":
    """Return a service model's pattern, or None for one that Python's `re` can't express."""
    pattern = java.removeprefix("^").removesuffix("$")
    for written, translated in _JAVA.items():
        pattern = pattern.replace(written, translated)
    try:
        return None if "\\p{" in pattern else re.compile(pattern)
    except re.error:
        return None


def find_broken_limits(value: Any, shape: Any) -> Iterator[str]:
    """Yield the limits that a string, list, map, or number violates, the pattern first as in AWS."""
    kind, limits = shape.type_name, shape.metadata
    if kind == "structure" or kind in ("boolean", "timestamp"):
        return
    stated = limits.get("pattern", "")
    pattern = _translate_pattern(stated) if stated and kind == "string" else None
    if pattern is not None and not pattern.fullmatch(value):
        yield f"satisfy regular expression pattern: {stated}"
    size, what = (value, "value") if kind in _NUMBERS else (len(value), "length")
    if size > limits.get("max", size):
        yield f"have {what} less than or equal to {limits['max']}"
    if size < limits.get("min", size):
        yield f"have {what} greater than or equal to {limits['min']}"
    if kind == "string" and shape.enum and value not in shape.enum:
        yield f"satisfy enum value set: [{', '.join(shape.enum)}]"


def find_violations(value: Any, shape: Any, where: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """Yield the path, value, shape, and limit of every violation in a request."""
    for must in find_broken_limits(value, shape):
        yield where, value, shape, must
    kind = shape.type_name
    if kind == "structure":
        for key, item in value.items():
            name = key[0].lower() + key[1:]
            if item is not None and key in shape.members:
                inner = f"{where}.{name}" if where else name
                yield from find_violations(item, shape.members[key], inner)
    elif kind == "list":
        for number, item in enumerate(value, start=1):  # AWS counts from one here
            yield from find_violations(item, shape.member, f"{where}.{number}.member")
    elif kind == "map":
        for key, item in value.items():
            yield from find_violations(key, shape.key, where)
            yield from find_violations(item, shape.value, f"{where}.{key}.member")


def format_violation(where: str, must: str, said: str = "") -> str:
    return f"Value{said} at '{where}' failed to satisfy constraint: Member must {must}"


@dataclass(frozen=True)
class Physical:
    """A resource that exists: Ref returns `physical_id`, GetAtt returns `attributes`."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Logical:
    """A logical resource of a stack, with the services that create it."""

    aws: Loopback
    logical_id: str
    generate_name: Callable[[int], str]
    # Called as soon as something exists, so that a later failure can be cleaned up.
    exists: Callable[[str], None]

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def call(self, service: str, operation: str, arguments: Properties) -> Any:
        """Call an operation by its API name. Raises `ResourceError` for invalid arguments."""
        method = getattr(self.client(service), xform_name(operation))
        return method(**convert_arguments(arguments, service, operation))

    def build_arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.aws.region}:{self.aws.account}:{resource}"

    def update_tags(
        self,
        service: str,
        resource: Properties,
        old: Properties,
        new: Properties,
        operations: tuple[str, str] = ("TagResource", "UntagResource"),
        arguments: tuple[str, str] = ("Tags", "TagKeys"),
        shaped: Callable[[Sequence[Properties]], Any] = list,
    ) -> None:
        """Call the service for the differences in `Tags`. `resource`: the argument with its name.

        `arguments`: those of tags, formatted for the service by `shaped`, and of the removed keys.
        """
        tags, keys = find_changed_tags(old, new)
        if tags:
            self.call(service, operations[0], {**resource, arguments[0]: shaped(tags)})
        if keys:
            self.call(service, operations[1], {**resource, arguments[1]: keys})


class ResourceType:
    """A CloudFormation type. Each subclass in servable_local/aws/resources/ can be deployed.

    `create_only` are the properties whose change creates a new resource, by default the name;
    `name_property` is the one with it: CloudFormation can't replace a resource with a fixed name.
    `unchangeable` are those that AWS changes in place and this type doesn't: a change is rejected.
    `emulated` are the supported properties, if no API lists them. `required` are those that
    CloudFormation checks before it calls a service (its resource schemas, 2026-11-28). `deletion`
    is the service, the operation, and the argument for the physical name, if that call alone
    deletes it.
    """

    type: ClassVar[str]
    create_only: ClassVar[frozenset[str]] = frozenset()
    unchangeable: ClassVar[frozenset[str]] = frozenset()
    name_property: ClassVar[str | None] = None
    longest_name: ClassVar[int] = 255
    emulated: ClassVar[frozenset[str] | None] = None
    required: ClassVar[tuple[str, ...]] = ()
    deletion: ClassVar[tuple[str, str, str]]

    def __init_subclass__(cls) -> None:
        if cls.name_property and "create_only" not in vars(cls):
            cls.create_only = frozenset({cls.name_property})

    def check(self, properties: Properties) -> None:
        """Raise `ResourceError` for a missing property, or one that would be ignored."""
        if missing := [name for name in self.required if name not in properties]:
            wanted = ", ".join(f"The property {{/{name}}} is required" for name in missing)
            raise ResourceError(f"Property validation failure: [{wanted}]")
        unknown = sorted(set(properties) - (self.emulated or set(properties)))
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(unknown)} is not emulated")

    def choose_name(self, properties: Properties, logical: Logical) -> str:
        """Return the name in the template, or one that CloudFormation would generate."""
        stated = properties.get(self.name_property) if self.name_property else None
        return str(stated or logical.generate_name(self.longest_name))

    def create(self, properties: Properties, logical: Logical) -> Physical:
        return self.put(self.choose_name(properties, logical), {}, properties, logical)

    def import_existing(self, identifier: Mapping[str, str], logical: Logical) -> Physical:
        """Return an existing resource. Raises `ResourceError`, or the service's error."""
        raise ResourceError(f"Resource type {self.type} is not supported for import here")

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        return self.put(physical, old, new, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        """Create or update, if the service has one operation for both. New: `old` is empty."""
        raise NotImplementedError

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        service, operation, name = self.deletion
        logical.call(service, operation, {name: physical})


def find_changed_tags(old: Properties, new: Properties) -> tuple[list[dict[str, str]], list[str]]:
    """Return tags that are new or have a different value, and the keys of removed ones."""
    before, after = map_tags(old.get("Tags", [])), map_tags(new.get("Tags", []))
    tags = [{"Key": k, "Value": v} for k, v in after.items() if before.get(k) != v]
    return tags, [key for key in before if key not in after]


def compare_items(key: str, old: Properties, new: Properties) -> tuple[list[Any], list[Any]]:
    """Return the items of a list property that are new, and those that are gone."""
    before, after = old.get(key, []), new.get(key, [])
    new_items = [item for item in after if item not in before]
    return new_items, [item for item in before if item not in after]


def map_tags(tags: Sequence[Mapping[str, Any]] | Mapping[str, str]) -> dict[str, str]:
    """Convert tags to the format of some services, {key: value}, which some properties have."""
    if isinstance(tags, Mapping):
        return dict(tags)
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}
