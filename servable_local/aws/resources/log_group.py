"""AWS::Logs::LogGroup."""

from typing import Any

from servable_local.aws.resources import tags
from servable_local.aws.resources.resource_type import (
    Made,
    Properties,
    Request,
    ResourceError,
    ResourceType,
)

_KNOWN = {"LogGroupName", "KmsKeyId", "RetentionInDays", "LogGroupClass", "Tags"}


class LogGroup(ResourceType):
    type = "AWS::Logs::LogGroup"
    create_only = frozenset({"LogGroupName"})
    name_property = "LogGroupName"

    def create(self, properties: Properties, request: Request) -> Made:
        logs = request.client("logs")
        unknown = sorted(set(properties) - _KNOWN)
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(unknown)} is not emulated")
        name = request.name(properties, "LogGroupName", longest=512)
        wanted: dict[str, Any] = {"logGroupName": name}
        if "KmsKeyId" in properties:
            wanted["kmsKeyId"] = properties["KmsKeyId"]
        if "LogGroupClass" in properties:
            wanted["logGroupClass"] = properties["LogGroupClass"]
        if properties.get("Tags"):
            wanted["tags"] = tags.as_map(properties["Tags"])
        logs.create_log_group(**wanted)
        request.exists(name)
        _retain(logs, name, properties)
        return _made(name, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        logs = request.client("logs")
        _retain(logs, physical_id, new)
        if new.get("KmsKeyId") != old.get("KmsKeyId"):
            if "KmsKeyId" in new:
                logs.associate_kms_key(logGroupName=physical_id, kmsKeyId=new["KmsKeyId"])
            else:
                logs.disassociate_kms_key(logGroupName=physical_id)
        wanted, gone = tags.difference(old, new)
        if wanted:
            logs.tag_log_group(logGroupName=physical_id, tags=tags.as_map(wanted))
        if gone:
            logs.untag_log_group(logGroupName=physical_id, tags=gone)
        return _made(physical_id, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("logs").delete_log_group(logGroupName=physical_id)


def _retain(logs: Any, name: str, properties: Properties) -> None:
    if "RetentionInDays" in properties:
        days = int(properties["RetentionInDays"])
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
    else:
        logs.delete_retention_policy(logGroupName=name)


def _made(name: str, request: Request) -> Made:
    return Made(name, {"Arn": request.arn("logs", f"log-group:{name}:*")})
