"""AWS::SNS::Topic."""

import json
from typing import Any

from servable_local.aws.resources import tags
from servable_local.aws.resources.resource_type import (
    Made,
    Properties,
    Request,
    ResourceError,
    ResourceType,
)

_ATTRIBUTES = (
    "DisplayName",
    "KmsMasterKeyId",
    "SignatureVersion",
    "TracingConfig",
    "ContentBasedDeduplication",
    "FifoTopic",
    "ArchivePolicy",
)


class SnsTopic(ResourceType):
    """Its inline `Subscription` list is made with it."""

    type = "AWS::SNS::Topic"
    create_only = frozenset({"TopicName", "FifoTopic"})
    name_property = "TopicName"

    def create(self, properties: Properties, request: Request) -> Made:
        sns = request.client("sns")
        name = request.name(properties, "TopicName", longest=256)
        unknown = set(properties) - {*_ATTRIBUTES, "TopicName", "Tags", "Subscription"}
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(sorted(unknown))} is not emulated")
        arn = sns.create_topic(
            Name=name, Attributes=_attributes(properties), Tags=properties.get("Tags", [])
        )["TopicArn"]
        request.exists(arn)
        for one in properties.get("Subscription", []):
            sns.subscribe(TopicArn=arn, Protocol=one["Protocol"], Endpoint=one["Endpoint"])
        return _made(arn)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        sns = request.client("sns")
        before, after = _attributes(old), _attributes(new)
        for name in {*before, *after}:
            if before.get(name) != after.get(name):
                sns.set_topic_attributes(
                    TopicArn=physical_id, AttributeName=name, AttributeValue=after.get(name, "")
                )
        wanted, gone = tags.difference(old, new)
        if wanted:
            sns.tag_resource(ResourceArn=physical_id, Tags=wanted)
        if gone:
            sns.untag_resource(ResourceArn=physical_id, TagKeys=gone)
        for one in new.get("Subscription", []):
            if one not in old.get("Subscription", []):
                sns.subscribe(
                    TopicArn=physical_id, Protocol=one["Protocol"], Endpoint=one["Endpoint"]
                )
        return _made(physical_id)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("sns").delete_topic(TopicArn=physical_id)


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: _text(properties[name]) for name in _ATTRIBUTES if name in properties}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _made(arn: str) -> Made:
    return Made(arn, {"TopicArn": arn, "TopicName": arn.rsplit(":", 1)[-1]})
