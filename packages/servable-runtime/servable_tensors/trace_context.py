"""The trace context and the inference ID of a request, in its custom attributes.

SageMaker forwards only the custom attributes of a caller's own headers, verbatim and at most 1024
characters, and the container's code passes no inference ID to a handler. Both therefore travel as
`traceparent=00-…,inference-id=…` among the custom attributes. Sources (2026-11-22):
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (CustomAttributes,
InferenceId), https://www.w3.org/TR/trace-context/#traceparent-header
"""

import re

MOST_ATTRIBUTES = 1024
"""Characters of all custom attributes together."""
MOST_INFERENCE_ID = 64
_TRACEPARENT = "traceparent"
_INFERENCE_ID = "inference-id"
# Characters that start no other attribute and need no escape in a log.
_VALID_ID = re.compile(rf"[A-Za-z0-9._:/+@~-]{{1,{MOST_INFERENCE_ID}}}")
# A later version may add fields behind the 55 characters of version 00.
_VALID_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}(-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?"
)


def add_trace(attributes: str, traceparent: str | None, inference_id: str | None) -> str:
    """Return the custom attributes with both; a malformed one or one without room is left out."""
    if traceparent is not None and (parent := normalize_traceparent(traceparent)):
        attributes = _append_attribute(attributes, f"{_TRACEPARENT}={parent}")
    if inference_id is not None and _VALID_ID.fullmatch(inference_id):
        attributes = _append_attribute(attributes, f"{_INFERENCE_ID}={inference_id}")
    return attributes


def _append_attribute(attributes: str, more: str) -> str:
    longer = f"{attributes},{more}" if attributes else more
    return longer if len(longer) <= MOST_ATTRIBUTES else attributes


def split_trace(attributes: str) -> tuple[str, dict[str, object]]:
    """Return the other custom attributes, and the first valid traceparent and inference_id."""
    if f"{_TRACEPARENT}=" not in attributes and f"{_INFERENCE_ID}=" not in attributes:
        return attributes, {}
    others: list[str] = []
    fields: dict[str, object] = {}
    for attribute in attributes.split(","):
        name, _, value = attribute.strip(" \t").partition("=")
        if name == _TRACEPARENT:
            if parent := normalize_traceparent(value):
                fields.setdefault("traceparent", parent)
        elif name == _INFERENCE_ID:
            if _VALID_ID.fullmatch(value):
                fields.setdefault("inference_id", value)
        else:
            others.append(attribute)
    return ",".join(others), fields


def normalize_traceparent(text: str) -> str | None:
    """Return the `traceparent` as version 00, or None if it is malformed. A later version is converted."""
    match = _VALID_PARENT.fullmatch(text) if len(text) <= MOST_ATTRIBUTES else None
    if match is None or (match[2] is not None and text.startswith("00")):
        return None
    return f"00{match[1]}"
