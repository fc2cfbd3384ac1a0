"""Limits that botocore's model of a service states: lengths, sizes, numbers, patterns.

botocore itself checks only the lower ones before it sends; AWS checks all of them, and
says every one that is not met.
"""

import re
from collections.abc import Iterator
from typing import Any

from servable_local.aws.resources.shapes import service_model

_NUMBERS = ("integer", "long", "float", "double")


def unmet(asked: dict[str, Any], service: str, operation: str) -> list[str]:
    """In AWS's words. Values are not repeated: they may be secrets."""
    shape = service_model(service).operation_model(operation).input_shape
    return list(_unmet(asked, shape, ""))


def refusal(found: list[str]) -> str:
    count = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: "
    return count + "; ".join(found)


def broken_length(value: Any, shape: Any, where: str) -> Iterator[str]:
    """Of a string, a list or a map."""
    limits = shape.metadata
    if len(value) > limits.get("max", len(value)):
        yield _said(where, f"have length less than or equal to {limits['max']}")
    if len(value) < limits.get("min", 0):
        yield _said(where, f"have length greater than or equal to {limits['min']}")


def broken_pattern(value: str, shape: Any, where: str) -> Iterator[str]:
    stated = shape.metadata.get("pattern", "")
    pattern = stated.removeprefix("^").removesuffix("$")
    # Java's classes (\p{ASCII}) are not Python's; lengths alone are checked there.
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
        yield _said(where, f"satisfy regular expression pattern: {stated}")


def _unmet(value: Any, shape: Any, where: str) -> Iterator[str]:
    kind = shape.type_name
    if value is None:
        return  # left out
    if kind == "structure":
        for key, item in value.items():
            name = key[0].lower() + key[1:]
            yield from _unmet(item, shape.members[key], f"{where}.{name}" if where else name)
    elif kind == "list":
        yield from broken_length(value, shape, where)
        for number, item in enumerate(value, start=1):  # AWS counts from one here
            yield from _unmet(item, shape.member, f"{where}.{number}.member")
    elif kind == "map":
        yield from broken_length(value, shape, where)
        for key, item in value.items():
            yield from _unmet(key, shape.key, where)
            yield from _unmet(item, shape.value, f"{where}.{key}.member")
    elif kind == "string":
        yield from broken_length(value, shape, where)
        yield from broken_pattern(value, shape, where)
    elif kind in _NUMBERS:
        yield from _of_number(value, shape.metadata, where)


def _of_number(value: float, limits: dict[str, Any], where: str) -> Iterator[str]:
    if value > limits.get("max", value):
        yield _said(where, f"have value less than or equal to {limits['max']}")
    if value < limits.get("min", value):
        yield _said(where, f"have value greater than or equal to {limits['min']}")


def _said(where: str, must: str) -> str:
    return f"Value at '{where}' failed to satisfy constraint: Member must {must}"
