"""Limits that a service's model states, of the services that refuse what exceeds them in one sentence.

Upstream (moto 5.2.5): lengths, patterns, sets of values and numbers are mostly kept as they come. AWS names
each that is not met, with the value, but for a secret one.
Sources: botocore's models; what tests/servable_local/aws/aws_answers.jsonl in the repository has recorded.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from servable_local.aws.loopback import service_model

# The code of it, by the service's name in moto.
CODES = {
    "events": "ValidationException",
    "kms": "ValidationException",
    "logs": "InvalidParameterException",
    "stepfunctions": "ValidationException",
}
# Words of their own, or none: names of groups, ARNs of rules' targets; a key's id is looked for instead.
_NOT_CHECKED = {"logGroupName", "arn", "keyId", "targetKeyId", "definition"}
_NUMBERS = ("integer", "long", "float", "double")
# Java's members of a structure, in its order; botocore's lack some.
_JAVA = {
    "MetricTransformation": "metricName metricNamespace metricValue defaultValue unit dimensions",
    "PutEventsRequestEntry": "time source resources detailType detail eventBusName traceHeader "
    "kmsKeyIdentifier internalMetadata",
}


def unmet(service: str, operation: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Code and message of a refusal, or nothing."""
    if service not in CODES:
        return
    shape = service_model(service).operation_model(operation).input_shape
    found = list(_members(given, shape, "")) if shape else []
    if found:
        count = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: "
        yield CODES[service], count + "; ".join(found)


def _members(given: Any, shape: Any, where: str) -> Iterator[str]:
    for name, member in shape.members.items():
        small = name[0].lower() + name[1:]
        value = given.get(name)
        if value is None or small in _NOT_CHECKED:
            continue
        at = f"{where}{small}"
        for must in _broken(value, member):
            secret = member.metadata.get("sensitive") or member.type_name == "blob"
            said = "" if secret else f" '{_java(value, member)}'"
            yield f"Value{said} at '{at}' failed to satisfy constraint: Member must {must}"
        if member.type_name == "structure" and isinstance(value, dict):
            yield from _members(value, member, f"{at}.")
        elif member.type_name == "list" and member.member.type_name == "structure":
            for number, item in enumerate(value, start=1):  # AWS counts from one here
                yield from _members(item, member.member, f"{at}.{number}.member.")


def _broken(value: Any, shape: Any) -> Iterator[str]:
    kind, limits = shape.type_name, shape.metadata
    least, most = limits.get("min"), limits.get("max")
    if kind in _NUMBERS or (kind in ("string", "list") and isinstance(value, str | list)):
        size = value if kind in _NUMBERS else len(value)
        what = "value" if kind in _NUMBERS else "length"
        if most is not None and size > most:
            yield f"have {what} less than or equal to {most}"
        if least is not None and size < least:
            yield f"have {what} greater than or equal to {least}"
    if kind != "string" or not isinstance(value, str):
        return
    if shape.enum and value not in shape.enum:
        yield f"satisfy enum value set: [{', '.join(shape.enum)}]"
    stated = limits.get("pattern", "")
    # Java's classes (\p{ASCII}) and pairs (\uD800\uDC00) are not Python's: not checked.
    java = "\\p{" in stated or "\\u" in stated
    pattern = stated.removeprefix("^").removesuffix("$")
    if pattern and not java and not re.fullmatch(pattern, value):
        yield f"satisfy regular expression pattern: {stated}"


def _java(value: Any, shape: Any) -> str:
    """As Java writes it."""
    if isinstance(value, list):
        return f"[{', '.join(_java(item, shape.member) for item in value)}]"
    if isinstance(value, dict) and shape.type_name == "structure":
        small = {name[0].lower() + name[1:]: item for name, item in value.items()}
        names = _JAVA.get(shape.name, " ".join(n[0].lower() + n[1:] for n in shape.members))
        members = (f"{name}={small.get(name, 'null')}" for name in names.split())
        return f"{shape.name}({', '.join(members)})"
    return str(value)
