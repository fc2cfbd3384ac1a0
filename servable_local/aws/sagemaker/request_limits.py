"""InvokeEndpoint's own limits, by botocore's model of it, in the words AWS services use."""

from collections.abc import Iterator, Mapping

from servable_local.aws.resources.constraints import broken_length, broken_pattern
from servable_local.aws.resources.shapes import service_model

# botocore's sagemaker-runtime model: BodyBlob, max.
LARGEST_BODY_BYTES = 6_291_456


def problems(headers: Mapping[str, str], body: bytes) -> list[str]:
    """Every constraint that is not met. Values are not repeated: they may be secrets."""
    found = list(_of_headers(headers))
    if len(body) > LARGEST_BODY_BYTES:
        found.append(
            "Value at 'body' failed to satisfy constraint: Member must have length less than "
            f"or equal to {LARGEST_BODY_BYTES}"
        )
    return found


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    shape = service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape
    for name, member in shape.members.items():
        value = headers.get(member.serialization.get("name", ""))
        if member.serialization.get("location") != "header" or value is None:
            continue
        where = name[0].lower() + name[1:]
        yield from broken_length(value, member, where)
        yield from broken_pattern(value, member, where)
