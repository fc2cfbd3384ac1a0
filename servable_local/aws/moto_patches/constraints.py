"""Limits that a service's model states, of the services that refuse what exceeds them in one sentence.

Upstream (moto 5.2.5): lengths, patterns, sets of values and numbers are mostly kept as they come. AWS names
each that is not met, with the value, but for a secret one.
Sources: botocore's models; what tests/servable_local/aws/aws_answers.jsonl in the repository has recorded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from servable_local.aws.loopback import service_model
from servable_local.aws.resources.shapes import broken, refusal, violation, violations

# The code of it, by the service's name in moto.
CODES = {
    "awslambda": "ValidationException",
    "cloudformation": "ValidationError",
    "events": "ValidationException",
    "iam": "ValidationError",
    "kms": "ValidationException",
    "logs": "InvalidParameterException",
    "stepfunctions": "ValidationException",
}
# Words of their own, or none: long names of groups, ARNs of rules' targets; a key's id is looked for instead.
_NOT_CHECKED = {"logGroupName", "arn", "keyId", "targetKeyId", "definition", "runtime"}
_IAM_NAME = ": [\\w+=,.@-]+"
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
    model = service_model("lambda" if service == "awslambda" else service)
    shape = model.operation_model(operation).input_shape
    found = []
    for name in shape.required_members if shape and service == "awslambda" else ():
        if name not in given:
            place = name[0].lower() + name[1:]
            found.append(
                f"Value null at '{place}' failed to satisfy constraint: Member must not be null"
            )
    for where, value, limited, must in violations(given, shape) if shape else ():
        name = where.rpartition(".")[2]
        group = name == "logGroupName" and "less than" not in must
        if service == "iam" and must.endswith(_IAM_NAME):
            yield (
                CODES[service],
                f"The specified value for {name} is invalid. It must contain only alphanumeric "
                "characters and/or the following: +=,.@_-",
            )
        elif group or name not in (*_NOT_CHECKED, "member"):
            secret = limited.metadata.get("sensitive") or limited.type_name == "blob"
            said = "" if secret else f" '{_java(value, limited)}'"
            found.append(violation(where, must, said))
    found += _of_items(given, shape.members if shape else {})
    if found:
        yield CODES[service], refusal(found)


def _of_items(given: Mapping[str, Any], members: Mapping[str, Any]) -> Iterator[str]:
    """A list is said as a whole, with all limits of its items."""
    for name, items in given.items():
        item = getattr(members.get(name), "member", None)
        if isinstance(items, list) and item and any(any(broken(one, item)) for one in items):
            limits = item.metadata
            bounds = {"max": "less than or equal to", "min": "greater than or equal to"}
            must = [f"have length {bounds[key]} {limits[key]}" for key in bounds if key in limits]
            if item.enum:
                must.append(f"satisfy enum value set: [{', '.join(item.enum)}]")
            if "pattern" in limits:
                must.append(f"satisfy regular expression pattern: {limits['pattern']}")
            all_of = ", ".join(f"Member must {one}" for one in [*must, "not be null"])
            where = name[0].lower() + name[1:]
            said = f" '{_java(items, members[name])}'"
            yield violation(where, f"satisfy constraint: [{all_of}]", said)


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
