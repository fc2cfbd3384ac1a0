"""Keys and their aliases."""

from collections.abc import Sequence
from typing import Any

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, retag
from servable_local.aws.resources.shapes import Properties, is_true

_AT_CREATION = ("Description", "KeySpec", "KeyUsage", "MultiRegion", "Origin")
_DEFAULT_WINDOW_DAYS = 30


class KmsKey(ResourceType):
    """Deleting schedules the deletion, as everywhere: a key is never gone at once."""

    type = "AWS::KMS::Key"

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arguments: dict[str, Any] = {k: properties[k] for k in _AT_CREATION if k in properties}
        if "KeyPolicy" in properties:
            arguments["Policy"] = properties["KeyPolicy"]
        arguments["Tags"] = _kms_tags(properties.get("Tags", []))
        key = str(logical.call("kms", "CreateKey", arguments)["KeyMetadata"]["KeyId"])
        logical.exists(key)
        _switch(key, {}, properties, logical)
        return _key(key, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        kms, key = logical.client("kms"), {"KeyId": physical}
        if new.get("Description", "") != old.get("Description", ""):
            kms.update_key_description(**key, Description=new.get("Description", ""))
        if new.get("KeyPolicy") != old.get("KeyPolicy") and "KeyPolicy" in new:
            policy = {"PolicyName": "default", "Policy": new["KeyPolicy"]}
            logical.call("kms", "PutKeyPolicy", key | policy)
        _switch(physical, old, new, logical)
        retag(logical, "kms", key, old, new, shaped=_kms_tags)
        return _key(physical, logical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        days = int(properties.get("PendingWindowInDays", _DEFAULT_WINDOW_DAYS))
        logical.client("kms").schedule_key_deletion(KeyId=physical, PendingWindowInDays=days)


def _switch(key: str, old: Properties, new: Properties, logical: Logical) -> None:
    for name, default, operations in (
        ("EnableKeyRotation", False, ("DisableKeyRotation", "EnableKeyRotation")),
        ("Enabled", True, ("DisableKey", "EnableKey")),
    ):
        on = is_true(new.get(name, default))
        if on != is_true(old.get(name, default)):
            logical.call("kms", operations[on], {"KeyId": key})


def _kms_tags(tags: Sequence[Properties]) -> list[dict[str, str]]:
    """KMS names the two parts of a tag differently from everybody else."""
    return [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags]


def _key(key: str, logical: Logical) -> Physical:
    return Physical(key, {"Arn": logical.arn("kms", f"key/{key}"), "KeyId": key})


class KmsAlias(ResourceType):
    type = "AWS::KMS::Alias"
    deletion = ("kms", "DeleteAlias", "AliasName")
    create_only = frozenset({"AliasName"})
    name_property = "AliasName"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        alias = {"AliasName": physical, "TargetKeyId": new["TargetKeyId"]}
        logical.call("kms", "UpdateAlias" if old else "CreateAlias", alias)
        return Physical(physical)
