"""Names and values of one stack: what a Ref, a GetAtt, a Sub says at this moment."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from servable_local.aws.cloudformation.errors import TemplateError
from servable_local.aws.cloudformation.functions import FUNCTIONS
from servable_local.aws.cloudformation.later import LATER
from servable_local.aws.cloudformation.stack import Resource

_NOTHING = object()
_PLACEHOLDER = re.compile(r"\$\{(!?[^${}]+)\}")


class Scope:
    """Names and their values for one stack. `later` names resources not made yet."""

    def __init__(
        self,
        *,
        pseudo: Mapping[str, str],
        parameters: Mapping[str, Any],
        mappings: Mapping[str, Any],
        resources: Mapping[str, Resource],
        exports: Mapping[str, str],
        conditions: Mapping[str, bool] | None = None,
    ) -> None:
        self.pseudo = pseudo
        self.parameters = parameters
        self.mappings = mappings
        self.resources = resources
        self.exports = exports
        self.conditions = dict(conditions or {})
        self.later: set[str] = set()

    def evaluate(self, value: Any) -> Any:
        """The value with every function answered. Raises `TemplateError`."""
        found = self._evaluate(value)
        return None if found is _NOTHING else found

    def _evaluate(self, value: Any) -> Any:
        if isinstance(value, list):
            return [item for item in map(self._evaluate, value) if item is not _NOTHING]
        if isinstance(value, str) and "{{resolve:" in value:
            raise TemplateError(f"Dynamic references are not emulated: {value}")
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Ref":
                return self._reference(argument)
            if function == "Condition" and argument in self.conditions:
                return self.conditions[argument]
            if function in _OWN:
                return _OWN[function](self, argument)
            if function in FUNCTIONS:
                return FUNCTIONS[function](self, argument)
            if function.startswith("Fn::"):
                raise TemplateError(f"The function {function} is not emulated.")
        pairs = ((key, self._evaluate(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not _NOTHING}

    def _reference(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        for values in (self.pseudo, self.parameters):
            if name in values:
                return values[name]
        if name in self.later:
            return LATER
        return self._resource(name).physical_id

    def _resource(self, name: str) -> Resource:
        if name not in self.resources:
            raise TemplateError(
                f"Template error: Unresolved resource dependencies [{name}] in the template"
            )
        return self.resources[name]

    def _attribute(self, argument: Any) -> Any:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        attribute = self._evaluate(attribute)
        if name in self.later:
            return LATER
        resource = self._resource(name)
        if attribute not in resource.attributes:
            known = ", ".join(sorted(resource.attributes)) or "none"
            raise TemplateError(
                f"Requested attribute {attribute} does not exist in schema for {resource.type}; "
                f"the embedded AWS has: {known}"
            )
        return resource.attributes[attribute]

    def _substitute(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        own = {name: self._evaluate(value) for name, value in own.items()}

        def answer(match: re.Match[str]) -> str:
            name = match.group(1)
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            name = name.strip()
            if name in own:
                return str(own[name])
            return str(self._attribute(name) if "." in name else self._reference(name))

        return _PLACEHOLDER.sub(answer, text)

    def _if(self, argument: Any) -> Any:
        name, yes, no = argument
        if name not in self.conditions:
            raise TemplateError(f"Template error: unresolved condition dependency {name}")
        return self._evaluate(yes if self.conditions[name] else no)


_OWN: dict[str, Callable[[Scope, Any], Any]] = {
    "Fn::GetAtt": Scope._attribute,
    "Fn::Sub": Scope._substitute,
    "Fn::If": Scope._if,
}
