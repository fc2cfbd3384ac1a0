"""CloudFormation's intrinsic functions, evaluated for one stack.

It imports only the standard library, so that any reader of templates can use it.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

# A value that only the deployment will know, as a change set shows it.
LATER = "{{changeSet:KNOWN_AFTER_APPLY}}"
_NOTHING = object()
_PLACEHOLDER = re.compile(r"\$\{(!?[^${}]+)\}")


class TemplateError(Exception):
    """The error of a template that cannot be evaluated. `str()` is a whole sentence."""


class Evaluator:
    """The evaluator of the functions. Only its subclasses know which resources exist."""

    def __init__(
        self,
        *,
        pseudo: Mapping[str, str],
        exports: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        mappings: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the values to which a template refers.

        `pseudo`: pseudo parameters such as AWS::Region. `exports`: values by their names.
        """
        self.pseudo = pseudo
        self.exports = exports
        self.parameters = parameters or {}
        self.mappings = mappings or {}
        self.conditions: dict[str, bool] = {}

    def find_physical_id(self, name: str) -> Any:
        """Return the value of Ref for a resource. Raises `TemplateError`."""
        raise NotImplementedError

    def find_attribute(self, name: str, attribute: str) -> Any:
        """Return the value of GetAtt for a resource. Raises `TemplateError`."""
        raise NotImplementedError

    def evaluate(self, value: Any) -> Any:
        """Return the value with every function evaluated. Raises `TemplateError`."""
        result = self._evaluate(value)
        return None if result is _NOTHING else result

    def evaluate_function(self, name: str, argument: Any) -> Any:
        """Return the value of one function: Ref, Condition or one of Fn::. Raises `TemplateError`."""
        if name not in _FUNCTIONS:
            raise TemplateError(f"The function {name} is not emulated.")
        least, most = _ARGUMENTS.get(name, (0, 0))
        if most and not (isinstance(argument, list) and least <= len(argument) <= most):
            count = least if least == most else f"{least} to {most}"
            words = _OBSERVED.get(name, f"{name} requires a list of {count} arguments.")
            raise TemplateError(f"Template error: {words}")
        return _FUNCTIONS[name](self, argument)

    def handle_dynamic_reference(self, text: str) -> Any:
        """Return a value of Parameter Store or Secrets Manager, in a subclass. Raises `TemplateError`."""
        raise TemplateError(f"Dynamic references are not emulated: {text}")

    def _evaluate(self, value: Any) -> Any:
        if isinstance(value, list):
            return [item for item in map(self._evaluate, value) if item is not _NOTHING]
        if isinstance(value, str) and "{{resolve:" in value:
            return self.handle_dynamic_reference(value)
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, argument)] = value.items()
            # A policy statement too has a key of the name Condition.
            own = name == "Condition" and isinstance(argument, str) and argument in self.conditions
            if own or name == "Ref" or name.startswith("Fn::"):
                return self.evaluate_function(name, argument)
        pairs = ((key, self._evaluate(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not _NOTHING}

    def find_condition(self, name: str) -> bool:
        """Return the value of a condition. Raises `TemplateError`."""
        if name not in self.conditions:
            raise TemplateError(f"Template error: unresolved condition dependency {name}")
        return self.conditions[name]

    def _evaluate_ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        for values in (self.pseudo, self.parameters):
            if name in values:
                return values[name]
        return self.find_physical_id(name)

    def _get_attribute(self, argument: Any) -> Any:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        return self.find_attribute(name, self._evaluate(attribute))

    def _substitute(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        own = {name: self._evaluate(value) for name, value in own.items()}

        def replace_placeholder(match: re.Match[str]) -> str:
            name = match.group(1)
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            name = name.strip()
            if name in own:
                return str(own[name])
            return str(self._get_attribute(name) if "." in name else self._evaluate_ref(name))

        return _PLACEHOLDER.sub(replace_placeholder, text)

    def _join(self, argument: Any) -> str:
        separator, parts = argument
        result = self.evaluate(parts)
        # A text instead of a list is a placeholder for an unknown list.
        return result if isinstance(result, str) else str(separator).join(map(str, result))

    def _select(self, argument: Any) -> Any:
        index, choices = self.evaluate(argument)
        if isinstance(choices, str) and LATER in choices:
            return choices
        if not (isinstance(choices, list) and str(index).isdigit() and int(index) < len(choices)):
            raise TemplateError(f"Template error: {_OBSERVED['Fn::Select']}")
        return choices[int(index)]

    def _split(self, argument: Any) -> Any:
        separator, text = self.evaluate(argument)
        if not isinstance(text, str):
            raise TemplateError("Template error: Fn::Split requires a delimiter and a string.")
        return LATER if LATER in text else text.split(separator)

    def _find_in_map(self, argument: Any) -> Any:
        value: Any = self.mappings
        keys = self.evaluate(argument)
        if keys[0] not in value:
            raise TemplateError(
                f"Template error: Mapping named '{keys[0]}' is not present in the 'Mappings' section of "
                "template."
            )
        for key in keys:
            if key not in value:
                asked = "::".join(map(str, keys))
                raise TemplateError(f"Template error: Unable to get mapping for {asked}")
            value = value[key]
        return value

    def import_value(self, name: str) -> str:
        """Return the value of an export. Raises `TemplateError`."""
        if name not in self.exports:
            raise TemplateError(f"No export named {name} found.")
        return self.exports[name]

    def _is_equal(self, argument: Any) -> bool:
        left, right = (
            str(value).lower() if isinstance(value, bool) else value
            for value in map(self.evaluate, argument)
        )
        return bool(left == right)

    def _evaluate_if(self, argument: Any) -> Any:
        name, yes, no = argument
        if name not in self.conditions:
            raise TemplateError(f"Template error: unresolved condition dependency {name} in Fn::If")
        return self._evaluate(yes if self.conditions[name] else no)


# The least and the most arguments of functions.
_ARGUMENTS = {
    **dict.fromkeys(("Fn::Join", "Fn::Split", "Fn::Select", "Fn::Equals"), (2, 2)),
    **dict.fromkeys(("Fn::FindInMap", "Fn::If"), (3, 3)),
    **dict.fromkeys(("Fn::And", "Fn::Or"), (2, 10)),
}
# What AWS answers to another number, where it was recorded.
_OBSERVED = {
    "Fn::Select": "Fn::Select requires a list argument with two elements: an integer index and a list",
    "Fn::Equals": "every Fn::Equals object requires a list of 2 string parameters.",
}
_FUNCTIONS: dict[str, Callable[[Evaluator, Any], Any]] = {
    "Ref": Evaluator._evaluate_ref,
    "Condition": Evaluator.find_condition,
    "Fn::GetAtt": Evaluator._get_attribute,
    "Fn::Sub": Evaluator._substitute,
    "Fn::Join": Evaluator._join,
    "Fn::Select": Evaluator._select,
    "Fn::Split": Evaluator._split,
    "Fn::FindInMap": Evaluator._find_in_map,
    "Fn::ImportValue": lambda scope, name: scope.import_value(scope.evaluate(name)),
    "Fn::GetAZs": lambda scope, region: [
        (scope.evaluate(region) or scope.pseudo["AWS::Region"]) + letter for letter in "abc"
    ],
    "Fn::Base64": lambda scope, text: base64.b64encode(scope.evaluate(text).encode()).decode(),
    "Fn::ToJsonString": lambda scope, value: json.dumps(scope.evaluate(value)),
    "Fn::If": Evaluator._evaluate_if,
    "Fn::Equals": Evaluator._is_equal,
    "Fn::Contains": lambda scope, parts: scope.evaluate(parts[1]) in scope.evaluate(parts[0]),
    "Fn::Not": lambda scope, parts: not scope.evaluate(parts[0]),
    "Fn::And": lambda scope, parts: all(scope.evaluate(part) for part in parts),
    "Fn::Or": lambda scope, parts: any(scope.evaluate(part) for part in parts),
}
