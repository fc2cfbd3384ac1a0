"""Values that only the deployment will know, as a change set shows them."""

from collections.abc import Mapping
from typing import Any

LATER = "{{changeSet:KNOWN_AFTER_APPLY}}"


def holds_later(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(holds_later(item) for item in value.values())
    if isinstance(value, list):
        return any(holds_later(item) for item in value)
    return isinstance(value, str) and LATER in value
