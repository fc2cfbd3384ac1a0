"""A template's text and format, its parameter values, and the creation order of its resources.

Most messages that reject a template were recorded from AWS:
tests/servable_local/aws/aws_answers.jsonl in the repository has each with its date and source.
The others are as public repositories quote them (read 2026-11-28).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from botocore.exceptions import ClientError

from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback

_ALPHANUMERIC = re.compile(r"[a-zA-Z0-9]+")
_PARAMETER_TYPE = re.compile(r"String|Number|CommaDelimitedList|List<Number>|(List<)?AWS::.+")
_WITHOUT_TYPE = "[/{0}/{1}] Every {0} object must contain a Type member."
NOT_A_STRING = "The Value field of every Outputs member must evaluate to a String"
_SECTIONS = frozenset({
    "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Hooks",
    "Mappings", "Conditions", "Transform", "Resources", "Outputs",
})  # fmt: skip
_ON_REPLACEMENT = ("Delete", "Retain", "Snapshot")
_POLICIES = {
    "DeletionPolicy": (*_ON_REPLACEMENT, "RetainExceptOnCreate"),
    "UpdateReplacePolicy": _ON_REPLACEMENT,
}
_OF_A_RESOURCE = frozenset({
    *_POLICIES, "Condition", "CreationPolicy", "DependsOn", "Metadata", "Properties", "Type",
    "UpdatePolicy",
})  # fmt: skip
Template = dict[str, Any]
_HERE = ("127.0.0.1", "::1", "localhost")
_FROM_STORE = "AWS::SSM::Parameter::Value<"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NAME = re.compile(r"\$\{([^!${}.][^${}.]*)")


def check_template(template: Any) -> None:
    """Raise `ValidationError` for the first part that isn't in the format of a template."""
    _demand(isinstance(template, dict), "unsupported structure.")
    for path in _find_nulls(template):
        raise ValidationError(f"[{path}] 'null' values are not allowed in templates")
    resources = template.get("Resources", {})
    _demand(isinstance(resources, dict), "Any Resources member must be an object.")
    _demand(resources, "At least one Resources member must be defined.")
    unknown = [name for name in template if name not in _SECTIONS]
    if unknown and not list_macros(template):
        raise ValidationError(f"Invalid template property or properties [{', '.join(unknown)}]")
    _check_names("Parameter", template.get("Parameters") or {})
    for name, slot in (template.get("Parameters") or {}).items():
        kind = slot.get("Type") if isinstance(slot, dict) else None
        _demand(kind is not None, _WITHOUT_TYPE.format("Parameters", name))
        _demand(_PARAMETER_TYPE.fullmatch(str(kind)), f"Unrecognized parameter type: {kind}")
    _check_names("Resource", resources)
    for logical_id, resource in resources.items():
        where, malformed = f"[/Resources/{logical_id}", "resource definition is malformed"
        _demand(isinstance(resource, dict), f"{where}] {malformed}")
        typed = isinstance(resource.get("Type"), str)
        _demand(typed, _WITHOUT_TYPE.format("Resources", logical_id))
        for attribute in (name for name in resource if name not in _OF_A_RESOURCE):
            raise ValidationError(f"Invalid template resource property '{attribute}'")
        found = isinstance(resource.get("Properties", {}), dict)
        _demand(found, f"{where}/Properties] {malformed}")
        for policy, allowed in _POLICIES.items():
            stated = resource.get(policy, "Delete")
            _demand(stated in allowed, f"Unrecognized {policy} {stated} for resource {logical_id}")
    for output in (template.get("Outputs") or {}).values():
        found = isinstance(output, dict) and "Value" in output
        _demand(found, "Every Outputs member must contain a Value object")
        value = output["Value"]
        function = isinstance(value, dict) and any(name == "Ref" or "::" in name for name in value)
        kind = "a List" if isinstance(value, list) else "a Map"
        _demand(function or not isinstance(value, list | dict), f"{NOT_A_STRING} and not {kind}.")
    _check_mappings(template.get("Mappings") or {})


def list_macros(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the macros that process the whole template: a name and parameters each."""
    named = template.get("Transform") or []
    listed = [named] if isinstance(named, str | dict) else list(named)
    listed += [template["Fn::Transform"]] if "Fn::Transform" in template else []
    return [{"Name": macro} if isinstance(macro, str) else macro for macro in listed]


def _find_nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    members = enumerate(value) if isinstance(value, list) else ()
    for key, member in value.items() if isinstance(value, dict) else members:
        yield from _find_nulls(member, f"{path}/{key}")


def _check_names(kind: str, names: Iterable[str]) -> None:
    for name in names:
        _demand(_ALPHANUMERIC.fullmatch(name), f"{kind} name {name} is non alphanumeric.")


def _check_mappings(mappings: Mapping[str, Any]) -> None:
    for mapping in mappings.values():
        # A mapping may be a macro's call, which isn't checked here.
        for key, members in mapping.items() if isinstance(mapping, dict) else ():
            _demand(isinstance(members, dict), f"Every Mappings member {key} must be a map")
            flat = not any(isinstance(value, dict) for value in members.values())
            _demand(flat, "Every Mappings attribute must be a String or a List.")


def _demand(met: object, problem: str) -> None:
    if not met:
        raise ValidationError(f"Template format error: {problem}")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader like CloudFormation's: `2012-10-17` is a policy version, never a date."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _construct_short_tag(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {name: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _construct_short_tag)


def parse_template(text: str) -> Template:
    """Parse JSON or YAML. Raises `ValidationError` for invalid text or an invalid template."""
    try:
        template = json.loads(text)
    except json.JSONDecodeError as not_json:
        try:
            template = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            # AWS's message ends here; the position is our addition.
            problem = "YAML not well-formed."
            mark = getattr(error, "problem_mark", None)
            place = (mark.line + 1, mark.column + 1) if mark else None
            if text.lstrip().startswith("{"):
                problem, place = "JSON not well-formed.", (not_json.lineno, not_json.colno + 1)
            if place:
                problem += " (line {}, column {})".format(*place)
            raise ValidationError(f"Template format error: {problem}") from None
    check_template(template)
    return template  # type: ignore[no-any-return]


def parse_bucket_and_key(url: str) -> tuple[str, str]:
    """Parse `https://BUCKET.s3.REGION.amazonaws.com/KEY` or `http://HOST:PORT/BUCKET/KEY`."""
    parts = urlparse(url)
    host, path = parts.hostname or "", unquote(parts.path).lstrip("/")
    for mark in (".s3.", ".s3-"):
        if mark in host and "amazonaws" in host:
            return host.split(mark, 1)[0], path
    bucket, _, key = path.partition("/")
    return bucket, key


def read_template(url: str, aws: Loopback) -> str:
    bucket, key = parse_bucket_and_key(url)
    parts = urlparse(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https"):
        problem = f"S3 error: Domain name specified in {parts.netloc} is not a valid S3 domain"
        raise ValidationError(problem)
    if not (".amazonaws.com" in host or host in _HERE):
        raise ValidationError("TemplateURL must be a supported URL.")
    try:
        body: bytes = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        raise ValidationError(f"S3 error: {error.response['Error']['Message']} ({url})") from None
    return body.decode("utf-8")


def choose_parameters(
    template: Template, passed: Sequence[Mapping[str, Any]], previous: Mapping[str, str]
) -> dict[str, str]:
    """Return each declared parameter's value as text. Raises `ValidationError` with all names."""
    declared: Mapping[str, Any] = template.get("Parameters") or {}
    if unknown := sorted({p["ParameterKey"] for p in passed} - set(declared)):
        raise ValidationError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, str] = {}
    for name, slot in declared.items():
        parameter = next((p for p in passed if p["ParameterKey"] == name), {})
        if "ParameterValue" in parameter:
            values[name] = parameter["ParameterValue"]
        elif parameter.get("UsePreviousValue") and name in previous:
            values[name] = previous[name]
        elif "Default" in slot:
            values[name] = str(slot["Default"])
    if missing := sorted(set(declared) - set(values)):
        raise ValidationError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        listed = declared[name].get("Type") in ("CommaDelimitedList", "List<Number>")
        for part in value.split(",") if listed else [value]:
            if words := _explain_violation(declared[name], part.strip() if listed else part):
                said = declared[name].get("ConstraintDescription")
                other = f"Parameter {name} failed to satisfy constraint: {said}"
                raise ValidationError(other if said else f"Parameter '{name}' must {words}")
    return values


def _explain_violation(slot: Mapping[str, Any], value: str) -> str | None:
    """Return the violated constraint, or None. For a stored parameter, `value` is its name."""
    kind = slot.get("Type", "String")
    allowed = slot.get("AllowedValues")
    if allowed and value not in [str(item) for item in allowed]:
        return "be one of AllowedValues"
    if "Number" in kind and not _NUMBER.fullmatch(value):
        return "be a number."
    if "Number" in kind:
        if float(value) < float(slot.get("MinValue", "-inf")):
            return f"be a number not less than {slot['MinValue']}"
        if float(value) > float(slot.get("MaxValue", "inf")):
            return f"be a number not greater than {slot['MaxValue']}"
    if kind == "String":
        if len(value) < int(slot.get("MinLength", 0)):
            return f"contain at least {slot['MinLength']} characters"
        if len(value) > int(slot.get("MaxLength", len(value))):
            return f"contain at most {slot['MaxLength']} characters"
    pattern = slot.get("AllowedPattern")
    with suppress(re.error):  # a pattern that only Java supports
        if pattern and not kind.startswith("AWS::SSM") and not re.fullmatch(pattern, value):
            return f"match pattern {pattern}"
    return None


def describe_parameters(template: Template) -> list[dict[str, Any]]:
    """Return the declared parameters as GetTemplateSummary describes them."""
    return [
        {
            "ParameterKey": key,
            "ParameterType": slot.get("Type", "String"),
            "DefaultValue": slot.get("Default"),
            "Description": slot.get("Description"),
            "NoEcho": bool(slot.get("NoEcho", False)),
        }
        for key, slot in (template.get("Parameters") or {}).items()
    ]


def mask_parameters(
    template: Template, values: Mapping[str, str], resolved: Mapping[str, str]
) -> list[dict[str, str]] | None:
    """Return the parameters as a response shows them, with `****` for NoEcho values.

    `resolved` contains the values of stored parameters, whose names were given.
    """
    secret = _find_secret_names(template)
    return [
        {"ParameterKey": name, "ParameterValue": "****" if name in secret else value}
        | ({"ResolvedValue": resolved[name]} if name in resolved else {})
        for name, value in sorted(values.items())
    ] or None


def list_secret_values(template: Template, values: Mapping[str, str]) -> list[str]:
    """Return the values that NoEcho hides, also in events."""
    return [values[name] for name in _find_secret_names(template) if values.get(name)]


def _find_secret_names(template: Template) -> set[str]:
    declared = template.get("Parameters") or {}
    return {name for name, slot in declared.items() if str(slot.get("NoEcho")).lower() == "true"}


def resolve_parameters(
    template: Template, values: Mapping[str, str], aws: Loopback
) -> dict[str, Any]:
    """Return the values that Ref returns: lists split, Parameter Store names resolved."""
    declared = template.get("Parameters") or {}
    resolved: dict[str, Any] = {}
    for name, value in values.items():
        kind = declared[name].get("Type", "String")
        if kind.startswith(_FROM_STORE):
            try:
                stored = aws.client("ssm").get_parameter(Name=value)["Parameter"]
            except ClientError:
                # AWS's message for a parameter that doesn't exist.
                problem = f"Parameter {name} should either have input value or default value"
                raise ValidationError(problem) from None
            value = str(stored["Value"])
            kind = kind.removeprefix(_FROM_STORE).removesuffix(">")
        listed = kind == "CommaDelimitedList" or kind.startswith("List<")
        resolved[name] = [part.strip() for part in value.split(",")] if listed else value
    return resolved


def walk_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in this value, itself included."""
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    for item in value if isinstance(value, list) else ():
        yield from walk_objects(item)


def find_references(value: Any) -> Iterator[str]:
    """Yield every name to which a Ref, GetAtt, or Sub in this value refers, resources or not."""
    for each in walk_objects(value):
        if isinstance(name := each.get("Ref"), str):
            yield name
        if item := each.get("Fn::GetAtt"):
            yield item.split(".", 1)[0] if isinstance(item, str) else item[0]
        if item := each.get("Fn::Sub"):
            text, *own = [item] if isinstance(item, str) else item
            yield from (name for name in _NAME.findall(text) if name not in (own or [{}])[0])


def find_dependencies(declaration: Mapping[str, Any]) -> set[str]:
    """Return the logical names on which one resource's declaration depends."""
    stated = declaration.get("DependsOn", [])
    named = {stated} if isinstance(stated, str) else set(stated)
    return named | set(find_references(declaration.get("Properties", {})))


def compute_creation_order(waits_for: Mapping[str, set[str]]) -> list[str]:
    """Return each name after all names that it waits for; ties keep the given order.

    Raises `ValidationError` for a cycle, listing its members.
    """
    graph = {
        name: [other for other in waits_for if other in others and other != name]
        for name, others in waits_for.items()
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        members = ", ".join(sorted({*circle.args[1]}))
        raise ValidationError(f"Circular dependency between resources: [{members}]") from None
