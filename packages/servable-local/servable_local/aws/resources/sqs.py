"""Queues and their policies: messages are kept and delivered, metrics of them are not published."""

from typing import Any

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    ResourceType,
    retag,
    tags_as_map,
)
from servable_local.aws.resources.shapes import Properties, is_true

# What an attribute is again when its property goes; the others are emptied (2026-11-28):
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
_DEFAULTS = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 262_144,
    "MessageRetentionPeriod": 345_600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
}
_FIXED = ("FifoQueue", "QueueName")
_ATTRIBUTES = frozenset(
    {
        *_DEFAULTS,
        "ContentBasedDeduplication",
        "DeduplicationScope",
        "FifoThroughputLimit",
        "KmsDataKeyReusePeriodSeconds",
        "KmsMasterKeyId",
        "RedriveAllowPolicy",
        "RedrivePolicy",
        "SqsManagedSseEnabled",
    }
)


class SqsQueue(ResourceType):
    type = "AWS::SQS::Queue"
    deletion = ("sqs", "DeleteQueue", "QueueUrl")
    create_only = frozenset(_FIXED)
    name_property = "QueueName"
    longest_name = 75  # of 80: a first-in-first-out one ends in .fifo
    emulated = frozenset({*_ATTRIBUTES, *_FIXED, "Tags"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        first_in_first_out = is_true(properties.get("FifoQueue", False))
        ending = ".fifo" if first_in_first_out and "QueueName" not in properties else ""
        attributes = {k: v for k, v in properties.items() if k in _ATTRIBUTES}
        queue = {
            "QueueName": self.name(properties, logical) + ending,
            "Attributes": attributes | ({"FifoQueue": "true"} if first_in_first_out else {}),
            "tags": tags_as_map(properties.get("Tags", [])),
        }
        url = str(logical.call("sqs", "CreateQueue", queue)["QueueUrl"])
        logical.exists(url)
        return _queue(url, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        changed: dict[str, Any] = {
            name: new.get(name, _DEFAULTS.get(name, ""))
            for name in _ATTRIBUTES
            if old.get(name) != new.get(name)
        }
        if changed:
            queue = {"QueueUrl": physical, "Attributes": changed}
            logical.call("sqs", "SetQueueAttributes", queue)
        operations = ("TagQueue", "UntagQueue")
        retag(logical, "sqs", {"QueueUrl": physical}, old, new, operations, shaped=tags_as_map)
        return _queue(physical, logical)


def _queue(url: str, logical: Logical) -> Physical:
    name = url.rsplit("/", 1)[-1]
    return Physical(url, {"Arn": logical.arn("sqs", name), "QueueName": name, "QueueUrl": url})


class SqsQueuePolicy(ResourceType):
    """The access policy of one or more queues."""

    type = "AWS::SQS::QueuePolicy"
    required = ("PolicyDocument", "Queues")

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        dropped = [queue for queue in old.get("Queues", []) if queue not in new["Queues"]]
        self._set(dropped, "", logical)
        self._set(new["Queues"], new["PolicyDocument"], logical)
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._set(properties["Queues"], "", logical)

    def _set(self, queues: list[str], policy: Any, logical: Logical) -> None:
        for queue in queues:
            attributes = {"QueueUrl": queue, "Attributes": {"Policy": policy}}
            logical.call("sqs", "SetQueueAttributes", attributes)
