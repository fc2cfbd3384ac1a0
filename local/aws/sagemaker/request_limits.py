"""InvokeEndpoint's own limits, by botocore's model of it, in the words AWS services use."""

import re
from collections.abc import Iterator, Mapping

from local.aws.resources.shapes import service_model

# botocore's sagemaker-runtime model: BodyBlob, max.
LARGEST_BODY_BYTES = 6_291_456


def problems(headers: Mapping[str, str], body: bytes) -> list[str]:
    """Every constraint that is not met. Values are not repeated: they may be secrets."""
    found = list(_of_headers(headers))
    if len(body) > LARGEST_BODY_BYTES:
        found.append(_length("body", f"less than or equal to {LARGEST_BODY_BYTES}"))
    return found


def refusal(found: list[str]) -> str:
    count = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: "
    return count + "; ".join(found)


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    shape = service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape
    for name, member in shape.members.items():
        value = headers.get(member.serialization.get("name", ""))
        if member.serialization.get("location") != "header" or value is None:
            continue
        where, limits = name[0].lower() + name[1:], member.metadata
        if len(value) > limits.get("max", len(value)):
            yield _length(where, f"less than or equal to {limits['max']}")
        if len(value) < limits.get("min", 0):
            yield _length(where, f"greater than or equal to {limits['min']}")
        pattern = limits.get("pattern", "").replace("^", "", 1).removesuffix("$")
        # Java's classes (\p{ASCII}) are not Python's; lengths alone are checked there.
        if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
            yield (
                f"Value at '{where}' failed to satisfy constraint: "
                f"Member must satisfy regular expression pattern: {limits['pattern']}"
            )


def _length(where: str, allowed: str) -> str:
    return f"Value at '{where}' failed to satisfy constraint: Member must have length {allowed}"
