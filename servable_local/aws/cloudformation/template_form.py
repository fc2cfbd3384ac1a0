"""What CloudFormation refuses of a template before it looks at any stack, in its words.

Every sentence was recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the repository has
each with its date and source.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from servable_local.aws.errors import ValidationError

_NAME = re.compile(r"[a-zA-Z0-9]+")
_OF_A_RESOURCE = frozenset(
    {
        "Condition",
        "CreationPolicy",
        "DeletionPolicy",
        "DependsOn",
        "Metadata",
        "Properties",
        "Type",
        "UpdatePolicy",
        "UpdateReplacePolicy",
    }
)


def check_form(template: Any) -> None:
    """Raises `ValidationError` for the first thing that is not of the form of a template."""
    if not isinstance(template, dict):
        raise _error("unsupported structure.")
    for path in _nulls(template):
        raise ValidationError(f"[{path}] 'null' values are not allowed in templates")
    if not isinstance(template.get("Resources", {}), dict):
        raise _error("Any Resources member must be an object.")
    if not template.get("Resources"):
        raise _error("At least one Resources member must be defined.")
    _check_names("Parameter", template.get("Parameters") or {})
    _check_names("Resource", template["Resources"])
    for logical_id, resource in template["Resources"].items():
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise _error(
                f"[/Resources/{logical_id}] Every Resources object must contain a Type member."
            )
        for attribute in resource:
            if attribute not in _OF_A_RESOURCE:
                raise ValidationError(f"Invalid template resource property '{attribute}'")
    for output in (template.get("Outputs") or {}).values():
        if not isinstance(output, dict) or "Value" not in output:
            raise _error("Every Outputs member must contain a Value object")
    _check_mappings(template.get("Mappings") or {})


def macros(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Programs that the template as a whole is handed to: a name and parameters each."""
    named = template.get("Transform") or []
    listed = [named] if isinstance(named, str | dict) else list(named)
    listed += [template["Fn::Transform"]] if "Fn::Transform" in template else []
    return [{"Name": macro} if isinstance(macro, str) else macro for macro in listed]


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    members = enumerate(value) if isinstance(value, list) else ()
    for key, member in value.items() if isinstance(value, dict) else members:
        yield from _nulls(member, f"{path}/{key}")


def _check_names(kind: str, names: Iterable[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise _error(f"{kind} name {name} is non alphanumeric.")


def _check_mappings(mappings: Mapping[str, Any]) -> None:
    for mapping in mappings.values():
        # A mapping may be a macro's call, which is no concern of this form.
        for key, members in mapping.items() if isinstance(mapping, dict) else ():
            if not isinstance(members, dict):
                raise _error(f"Every Mappings member {key} must be a map")
            if any(isinstance(value, dict) for value in members.values()):
                raise _error("Every Mappings attribute must be a String or a List.")


def _error(problem: str) -> ValidationError:
    return ValidationError(f"Template format error: {problem}")
