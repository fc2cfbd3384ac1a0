"""Tags of a resource that is updated: which to set, which to take away."""

from collections.abc import Mapping, Sequence
from typing import Any

from servable_local.aws.resources.resource_type import Properties

Tag = Mapping[str, Any]


def difference(old: Properties, new: Properties) -> tuple[list[dict[str, str]], list[str]]:
    """(tags to set, keys to remove), from both states' `Tags` lists."""
    before, after = _pairs(old.get("Tags", [])), _pairs(new.get("Tags", []))
    wanted = [{"Key": k, "Value": v} for k, v in after.items() if before.get(k) != v]
    return wanted, [key for key in before if key not in after]


def _pairs(tags: Sequence[Tag]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags}


def as_map(tags: Sequence[Tag]) -> dict[str, str]:
    """The form that some services take: {key: value}."""
    return _pairs(tags)
