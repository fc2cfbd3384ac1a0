"""AWS::KMS::Key."""

from typing import Any

from servable_local.aws.resources import tags
from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit

_AT_CREATION = ("Description", "KeySpec", "KeyUsage", "MultiRegion", "Origin")
_DEFAULT_WINDOW_DAYS = 30


class KmsKey(ResourceType):
    """Deleting schedules the deletion, as everywhere: a key is never gone at once."""

    type = "AWS::KMS::Key"

    def create(self, properties: Properties, request: Request) -> Made:
        kms = request.client("kms")
        wanted: dict[str, Any] = {k: properties[k] for k in _AT_CREATION if k in properties}
        if "KeyPolicy" in properties:
            wanted["Policy"] = properties["KeyPolicy"]
        # KMS names the two parts of a tag differently from everybody else.
        wanted["Tags"] = _kms_tags(properties.get("Tags", []))
        made = kms.create_key(**fit(wanted, "kms", "CreateKey"))["KeyMetadata"]
        request.exists(made["KeyId"])
        self._switch(kms, made["KeyId"], {}, properties)
        return _made(made["KeyId"], request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        kms = request.client("kms")
        if new.get("Description", "") != old.get("Description", ""):
            kms.update_key_description(KeyId=physical_id, Description=new.get("Description", ""))
        if new.get("KeyPolicy") != old.get("KeyPolicy") and "KeyPolicy" in new:
            policy = {"KeyId": physical_id, "PolicyName": "default", "Policy": new["KeyPolicy"]}
            kms.put_key_policy(**fit(policy, "kms", "PutKeyPolicy"))
        self._switch(kms, physical_id, old, new)
        wanted, gone = tags.difference(old, new)
        if wanted:
            kms.tag_resource(KeyId=physical_id, Tags=_kms_tags(wanted))
        if gone:
            kms.untag_resource(KeyId=physical_id, TagKeys=gone)
        return _made(physical_id, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        days = int(properties.get("PendingWindowInDays", _DEFAULT_WINDOW_DAYS))
        request.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)

    def _switch(self, kms: Any, key: str, old: Properties, new: Properties) -> None:
        def on(properties: Properties, name: str, default: bool) -> bool:
            return str(properties.get(name, default)).lower() == "true"

        if on(new, "EnableKeyRotation", False) != on(old, "EnableKeyRotation", False):
            call = "enable" if on(new, "EnableKeyRotation", False) else "disable"
            getattr(kms, f"{call}_key_rotation")(KeyId=key)
        if on(new, "Enabled", True) != on(old, "Enabled", True):
            getattr(kms, "enable_key" if on(new, "Enabled", True) else "disable_key")(KeyId=key)


def _kms_tags(given: Any) -> list[dict[str, str]]:
    return [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in given]


def _made(key: str, request: Request) -> Made:
    return Made(key, {"Arn": request.arn("kms", f"key/{key}"), "KeyId": key})
