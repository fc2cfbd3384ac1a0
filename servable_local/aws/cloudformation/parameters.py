"""The parameters of a template: what was passed, what stays, what the template defaults to."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.cloudformation.errors import ValidationError
from servable_local.aws.cloudformation.template import Template
from servable_local.aws.loopback import Loopback

_FROM_STORE = "AWS::SSM::Parameter::Value<"


def chosen(
    template: Template, passed: Sequence[Mapping[str, Any]], previous: Mapping[str, str]
) -> dict[str, str]:
    """Every declared parameter's value, as text. Raises `ValidationError`, all names at once."""
    declared: Mapping[str, Any] = template.get("Parameters") or {}
    unknown = sorted({p["ParameterKey"] for p in passed} - set(declared))
    if unknown:
        raise ValidationError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, str] = {}
    for name, slot in declared.items():
        given = next((p for p in passed if p["ParameterKey"] == name), None)
        if given is not None and "ParameterValue" in given:
            values[name] = given["ParameterValue"]
        elif given is not None and given.get("UsePreviousValue") and name in previous:
            values[name] = previous[name]
        elif "Default" in slot:
            values[name] = str(slot["Default"])
    missing = sorted(set(declared) - set(values))
    if missing:
        raise ValidationError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        allowed = declared[name].get("AllowedValues")
        if allowed and value not in [str(item) for item in allowed]:
            raise ValidationError(f"Parameter '{name}' must be one of AllowedValues")
    return values


def resolved(template: Template, values: Mapping[str, str], aws: Loopback) -> dict[str, Any]:
    """The values as Ref answers them: lists split, parameter-store names looked up."""
    declared = template.get("Parameters") or {}
    found: dict[str, Any] = {}
    for name, value in values.items():
        kind = declared[name].get("Type", "String")
        if kind.startswith(_FROM_STORE):
            value = _stored(value, aws)
            kind = kind.removeprefix(_FROM_STORE).removesuffix(">")
        listed = kind == "CommaDelimitedList" or kind.startswith("List<")
        found[name] = [part.strip() for part in value.split(",")] if listed else value
    return found


def _stored(name: str, aws: Loopback) -> str:
    try:
        return str(aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError:
        raise ValidationError(
            f"Unable to fetch parameters [{name}] from parameter store for this account."
        ) from None
