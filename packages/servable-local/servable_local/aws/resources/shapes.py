"""Template values become what a service's API takes, by botocore's model of that API.

CloudFormation accepts "5" for 5 and "true" for true; an API does not. A property that the
API does not know is refused by name: nothing in a template is silently left out.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.validate import ParamValidator

from servable_local.aws.loopback import service_model

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
