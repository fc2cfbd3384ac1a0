"""What CloudFormation refuses of a template before it looks at any stack, in its words.

Most sentences were recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the repository has
each with its date and source. The others are as public repositories quote them (read 2026-11-28).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from servable_local.aws.errors import ValidationError

_NAME = re.compile(r"[a-zA-Z0-9]+")
_PARAMETER_TYPE = re.compile(r"String|Number|CommaDelimitedList|List<Number>|(List<)?AWS::.+")
NOT_A_STRING = "The Value field of every Outputs member must evaluate to a String"
_SECTIONS = frozenset(
    {
        *("AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Hooks"),
        *("Mappings", "Conditions", "Transform", "Resources", "Outputs"),
    }
)
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
    unknown = [name for name in template if name not in _SECTIONS and not macros(template)]
    if unknown:
        raise ValidationError(f"Invalid template property or properties [{', '.join(unknown)}]")
    _check_names("Parameter", template.get("Parameters") or {})
    for name, slot in (template.get("Parameters") or {}).items():
        kind = slot.get("Type") if isinstance(slot, dict) else None
        if kind is None:
            raise _error(
                f"[/Parameters/{name}] Every Parameters object must contain a Type member."
            )
        if not _PARAMETER_TYPE.fullmatch(str(kind)):
            raise _error(f"Unrecognized parameter type: {kind}")
    _check_names("Resource", template["Resources"])
    for logical_id, resource in template["Resources"].items():
        if not isinstance(resource, dict):
            raise _error(f"[/Resources/{logical_id}] resource definition is malformed")
        if not isinstance(resource.get("Type"), str):
            raise _error(
                f"[/Resources/{logical_id}] Every Resources object must contain a Type member."
            )
        for attribute in resource:
            if attribute not in _OF_A_RESOURCE:
                raise ValidationError(f"Invalid template resource property '{attribute}'")
        if not isinstance(resource.get("Properties", {}), dict):
            raise _error(f"[/Resources/{logical_id}/Properties] resource definition is malformed")
        for policy, more in (
            ("DeletionPolicy", "RetainExceptOnCreate"),
            ("UpdateReplacePolicy", ""),
        ):
            if (stated := resource.get(policy, "Delete")) not in (
                "Delete",
                "Retain",
                "Snapshot",
                more,
            ):
                raise _error(f"Unrecognized {policy} {stated} for resource {logical_id}")
    for output in (template.get("Outputs") or {}).values():
        if not isinstance(output, dict) or "Value" not in output:
            raise _error("Every Outputs member must contain a Value object")
        value = output["Value"]
        function = isinstance(value, dict) and any(name == "Ref" or "::" in name for name in value)
        if isinstance(value, list | dict) and not function:
            kind = "a List" if isinstance(value, list) else "a Map"
            raise _error(f"{NOT_A_STRING} and not {kind}.")
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
