"""The intrinsic functions that need nothing but their evaluated arguments and tables.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html
"""

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from servable_local.aws.cloudformation.errors import TemplateError
from servable_local.aws.cloudformation.later import LATER

if TYPE_CHECKING:
    from servable_local.aws.cloudformation.scope import Scope


def _join(scope: "Scope", argument: Any) -> str:
    separator, parts = argument
    return str(separator).join(str(part) for part in scope.evaluate(parts))


def _select(scope: "Scope", argument: Any) -> Any:
    index, choices = scope.evaluate(argument)
    if choices == LATER:
        return LATER
    if not 0 <= int(index) < len(choices):
        raise TemplateError(
            f"Template error: Fn::Select cannot select nonexistent value at index {index}"
        )
    return choices[int(index)]


def _split(scope: "Scope", argument: Any) -> Any:
    separator, text = scope.evaluate(argument)
    return LATER if LATER in text else text.split(separator)


def _find(scope: "Scope", argument: Any) -> Any:
    found: Any = scope.mappings
    for key in scope.evaluate(argument)[:3]:
        if key not in found:
            raise TemplateError(f"Template error: Unable to get mapping for {argument}")
        found = found[key]
    return found


def _import(scope: "Scope", argument: Any) -> Any:
    name = scope.evaluate(argument)
    if name not in scope.exports:
        raise TemplateError(f"No export named {name} found.")
    return scope.exports[name]


def _zones(scope: "Scope", argument: Any) -> list[str]:
    region = scope.evaluate(argument) or scope.pseudo["AWS::Region"]
    return [f"{region}{letter}" for letter in "abc"]


def _contains(scope: "Scope", argument: Any) -> bool:
    choices, wanted = scope.evaluate(argument)
    return bool(wanted in choices)


def _equals(scope: "Scope", argument: Any) -> bool:
    left, right = (scope.evaluate(side) for side in argument)
    return bool(_word(left) == _word(right))


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _encoded(scope: "Scope", argument: Any) -> str:
    return base64.b64encode(scope.evaluate(argument).encode()).decode()


FUNCTIONS: dict[str, Callable[["Scope", Any], Any]] = {
    "Fn::Join": _join,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::FindInMap": _find,
    "Fn::ImportValue": _import,
    "Fn::GetAZs": _zones,
    "Fn::Base64": _encoded,
    "Fn::ToJsonString": lambda scope, value: json.dumps(scope.evaluate(value)),
    "Fn::Equals": _equals,
    "Fn::Contains": _contains,
    "Fn::Not": lambda scope, parts: not scope.evaluate(parts[0]),
    "Fn::And": lambda scope, parts: all(scope.evaluate(part) for part in parts),
    "Fn::Or": lambda scope, parts: any(scope.evaluate(part) for part in parts),
}
