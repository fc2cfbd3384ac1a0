"""Template values become what a service's API takes, by botocore's model of that API.

CloudFormation accepts "5" for 5 and "true" for true; an API does not. A property that the
API does not know is refused by name: nothing in a template is silently left out.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.loaders
import botocore.model

Properties = Mapping[str, Any]
_WHOLE_NUMBERS, _FRACTIONS = ("integer", "long"), ("float", "double")


class ResourceError(Exception):
    """A service refused or failed. `str()` is the reason that CloudFormation shows."""


@functools.cache
def service_model(service: str) -> botocore.model.ServiceModel:
    document = botocore.loaders.Loader().load_service_model(service, "service-2")
    return botocore.model.ServiceModel(document, service_name=service)


def fit(properties: Properties, service: str, operation: str) -> dict[str, Any]:
    """The operation's arguments. Raises `ResourceError` naming what does not fit."""
    shape = service_model(service).operation_model(operation).input_shape
    fitted = _fit(dict(properties), shape, "")
    assert isinstance(fitted, dict)
    return fitted


def _fit(value: Any, shape: Any, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure":
        return _structure(value, shape, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_fit(item, shape.member, f"{path}/{n}") for n, item in enumerate(items)]
    if kind == "map":
        return {key: _fit(item, shape.value, f"{path}/{key}") for key, item in value.items()}
    if kind == "string":
        return _string(value, shape, path)
    if kind == "boolean":
        return _boolean(value, path)
    if kind in (*_WHOLE_NUMBERS, *_FRACTIONS):
        return _number(value, kind, path)
    return value


def _structure(value: Any, shape: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ResourceError(f"{path or '/'}: {value!r} is not an object")
    unknown = sorted(set(value) - set(shape.members))
    if unknown:
        raise ResourceError(
            f"extraneous key [{', '.join(unknown)}] is not permitted at {path or '/'}; "
            f"allowed: {', '.join(sorted(shape.members))}"
        )
    missing = sorted(set(shape.required_members) - set(value))
    if missing:
        raise ResourceError(f"required key [{', '.join(missing)}] not found at {path or '/'}")
    return {key: _fit(item, shape.members[key], f"{path}/{key}") for key, item in value.items()}


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


def _boolean(value: Any, path: str) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ResourceError(f"{path}: {value!r} is not true or false")
    return is_true(value)


def _number(value: Any, kind: str, path: str) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ResourceError(f"{path}: {value!r} is not a number") from None
    if kind in _FRACTIONS:
        return number
    if number != int(number):
        raise ResourceError(f"{path}: {value!r} is not a whole number")
    return int(value) if isinstance(value, (int, str)) else int(number)


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
    elif kind in (*_WHOLE_NUMBERS, *_FRACTIONS):
        yield from _of_number(value, shape.metadata, where)


def _of_number(value: float, limits: dict[str, Any], where: str) -> Iterator[str]:
    if value > limits.get("max", value):
        yield _said(where, f"have value less than or equal to {limits['max']}")
    if value < limits.get("min", value):
        yield _said(where, f"have value greater than or equal to {limits['min']}")


def _said(where: str, must: str) -> str:
    return f"Value at '{where}' failed to satisfy constraint: Member must {must}"
