"""Lifecycle rules: CloudFormation's spelling becomes S3's."""

from collections.abc import Mapping, Sequence
from typing import Any

from servable_local.aws.resources.resource_type import ResourceError

_AS_THEY_ARE = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")
_KNOWN = {
    *_AS_THEY_ARE,
    "Id",
    "Prefix",
    "ExpirationInDays",
    "ExpiredObjectDeleteMarker",
    "NoncurrentVersionExpirationInDays",
}


def lifecycle_rules(rules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Raises `ResourceError` for a part that is not emulated."""
    return [_rule(rule) for rule in rules]


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(rule) - _KNOWN)
    if unknown:
        raise ResourceError(f"LifecycleConfiguration/Rules: {', '.join(unknown)} is not emulated")
    found: dict[str, Any] = {name: rule[name] for name in _AS_THEY_ARE if name in rule}
    found["Filter"] = {"Prefix": rule.get("Prefix", "")}
    if "Id" in rule:
        found["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        found["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    elif "ExpiredObjectDeleteMarker" in rule:
        marker = str(rule["ExpiredObjectDeleteMarker"]).lower() == "true"
        found["Expiration"] = {"ExpiredObjectDeleteMarker": marker}
    if "NoncurrentVersionExpirationInDays" in rule:
        days = int(rule["NoncurrentVersionExpirationInDays"])
        found["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    return found
