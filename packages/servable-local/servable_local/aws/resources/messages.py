"""Topics, subscriptions, and queues, with their policies.

An email address can be subscribed, but no mail is sent. Queues publish no metrics.
"""

import importlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceType,
    compare_items,
    is_true,
    map_tags,
)

# The default of an attribute whose property is removed; others become empty (2026-11-28):
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
_DEFAULTS = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 262_144,
    "MessageRetentionPeriod": 345_600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
}
_FIXED = ("FifoQueue", "QueueName")
_ATTRIBUTES = frozenset({
    *_DEFAULTS, "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit",
    "KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "RedriveAllowPolicy", "RedrivePolicy",
    "SqsManagedSseEnabled",
})  # fmt: skip
_TOPIC_ATTRIBUTES = (
    "DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig",
    "ContentBasedDeduplication", "FifoTopic", "ArchivePolicy",
)  # fmt: skip
_SUBSCRIPTION_ATTRIBUTES = (
    "DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy",
    "SubscriptionRoleArn",
)  # fmt: skip


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
            "QueueName": self.choose_name(properties, logical) + ending,
            "Attributes": attributes | ({"FifoQueue": "true"} if first_in_first_out else {}),
            "tags": map_tags(properties.get("Tags", [])),
        }
        url = str(logical.call("sqs", "CreateQueue", queue)["QueueUrl"])
        logical.exists(url)
        return _build_physical(url, logical)

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
        logical.update_tags("sqs", {"QueueUrl": physical}, old, new, operations, shaped=map_tags)
        return _build_physical(physical, logical)


def _build_physical(url: str, logical: Logical) -> Physical:
    name = url.rsplit("/", 1)[-1]
    arn = logical.build_arn("sqs", name)
    return Physical(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


class AccessPolicy(ResourceType):
    """The access policy of one or more queues or topics, which `property_name` lists."""

    property_name: ClassVar[str]

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for name in compare_items(self.property_name, old, new)[1]:
            self.set_policy(name, None, logical)
        for name in new[self.property_name]:
            self.set_policy(name, new["PolicyDocument"], logical)
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        for name in properties[self.property_name]:
            self.set_policy(name, None, logical)

    def set_policy(self, name: str, document: Any, logical: Logical) -> None:
        """Set the policy of one queue or topic; None restores its initial state."""
        raise NotImplementedError


class SqsQueuePolicy(AccessPolicy):
    type = "AWS::SQS::QueuePolicy"
    property_name = "Queues"
    required = ("PolicyDocument", "Queues")

    def set_policy(self, name: str, document: Any, logical: Logical) -> None:
        attributes = {"QueueUrl": name, "Attributes": {"Policy": document or ""}}
        logical.call("sqs", "SetQueueAttributes", attributes)


def _format_attributes(names: Sequence[str], properties: Properties) -> dict[str, str]:
    stated = {name: properties[name] for name in names if name in properties}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in stated.items()}


def _list_changes(
    names: Sequence[str], old: Properties, new: Properties
) -> Iterator[dict[str, str]]:
    """Yield the arguments of a call for each attribute that differs."""
    before, after = _format_attributes(names, old), _format_attributes(names, new)
    for name in names:
        if before.get(name) != after.get(name):
            yield {"AttributeName": name, "AttributeValue": after.get(name, "")}


class SnsTopic(ResourceType):
    """A topic, with the subscriptions of its inline `Subscription` list."""

    type = "AWS::SNS::Topic"
    deletion = ("sns", "DeleteTopic", "TopicArn")
    create_only = frozenset({"TopicName", "FifoTopic"})
    name_property = "TopicName"
    emulated = frozenset({*_TOPIC_ATTRIBUTES, "TopicName", "Tags", "Subscription"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arn = logical.client("sns").create_topic(
            Name=self.choose_name(properties, logical),
            Attributes=_format_attributes(_TOPIC_ATTRIBUTES, properties),
            Tags=properties.get("Tags", []),
        )["TopicArn"]
        logical.exists(arn)
        return _add_subscriptions(arn, {}, properties, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        sns = logical.client("sns")
        for change in _list_changes(_TOPIC_ATTRIBUTES, old, new):
            sns.set_topic_attributes(TopicArn=physical, **change)
        logical.update_tags("sns", {"ResourceArn": physical}, old, new)
        return _add_subscriptions(physical, old, new, logical)


def _add_subscriptions(arn: str, old: Properties, new: Properties, logical: Logical) -> Physical:
    sns, (came, went) = logical.client("sns"), compare_items("Subscription", old, new)
    for subscription in came:
        sns.subscribe(TopicArn=arn, **subscription)
    for found in sns.list_subscriptions_by_topic(TopicArn=arn)["Subscriptions"] if went else ():
        if {key: found[key] for key in ("Endpoint", "Protocol")} in went:
            sns.unsubscribe(SubscriptionArn=found["SubscriptionArn"])
    stated = {name: new[name] for name in ("DisplayName",) if name in new}
    return Physical(arn, {"TopicArn": arn, "TopicName": arn.rsplit(":", 1)[-1], **stated})


class SnsSubscription(ResourceType):
    type = "AWS::SNS::Subscription"
    create_only = frozenset({"Endpoint", "Protocol", "TopicArn"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arn = _create_client(properties, logical).subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties.get("Endpoint", ""),
            Attributes=_format_attributes(_SUBSCRIPTION_ATTRIBUTES, properties),
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        return Physical(arn, {"Arn": arn})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        sns = _create_client(new, logical)
        for change in _list_changes(_SUBSCRIPTION_ATTRIBUTES, old, new):
            sns.set_subscription_attributes(SubscriptionArn=physical, **change)
        return Physical(physical, {"Arn": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        _create_client(properties, logical).unsubscribe(SubscriptionArn=physical)


def _create_client(subscription: Properties, logical: Logical) -> Any:
    """Create an SNS client for the topic's Region, which the property Region can change."""
    return logical.aws.client("sns", subscription.get("Region"))


class SnsTopicPolicy(AccessPolicy):
    type = "AWS::SNS::TopicPolicy"
    property_name = "Topics"
    required = ("PolicyDocument", "Topics")

    def set_policy(self, name: str, document: Any, logical: Logical) -> None:
        if document is None:  # a topic always has a policy, first moto's copy of AWS's default
            account, region = logical.aws.account, logical.aws.region
            backends = importlib.import_module("moto.sns.models").sns_backends
            topic = backends[account][region].get_topic(name)
            document = topic._create_default_topic_policy(region, account, topic.name)
        policy = {"AttributeName": "Policy", "AttributeValue": json.dumps(document)}
        logical.client("sns").set_topic_attributes(TopicArn=name, **policy)
