"""Topics, their policies, and subscriptions: an e-mail address is subscribed, no mail is sent."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, retag
from servable_local.aws.resources.shapes import Properties

_TOPIC_ATTRIBUTES = (
    "DisplayName",
    "KmsMasterKeyId",
    "SignatureVersion",
    "TracingConfig",
    "ContentBasedDeduplication",
    "FifoTopic",
    "ArchivePolicy",
)
_SUBSCRIPTION_ATTRIBUTES = (
    "DeliveryPolicy",
    "FilterPolicy",
    "FilterPolicyScope",
    "RawMessageDelivery",
    "RedrivePolicy",
    "SubscriptionRoleArn",
)


def _attributes(names: Sequence[str], properties: Properties) -> dict[str, str]:
    stated = {name: properties[name] for name in names if name in properties}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in stated.items()}


def _changed(names: Sequence[str], old: Properties, new: Properties) -> Iterator[dict[str, str]]:
    """The arguments of a call for each attribute that differs."""
    before, after = _attributes(names, old), _attributes(names, new)
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
            Name=self.name(properties, logical),
            Attributes=_attributes(_TOPIC_ATTRIBUTES, properties),
            Tags=properties.get("Tags", []),
        )["TopicArn"]
        logical.exists(arn)
        return _subscribed(arn, {}, properties, logical)

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        sns = logical.client("sns")
        for change in _changed(_TOPIC_ATTRIBUTES, old, new):
            sns.set_topic_attributes(TopicArn=physical, **change)
        retag(logical, "sns", {"ResourceArn": physical}, old, new)
        return _subscribed(physical, old, new, logical)


def _subscribed(arn: str, old: Properties, new: Properties, logical: Logical) -> Physical:
    for subscription in new.get("Subscription", []):
        if subscription not in old.get("Subscription", []):
            to = {key: subscription[key] for key in ("Protocol", "Endpoint")}
            logical.client("sns").subscribe(TopicArn=arn, **to)
    stated = {name: new[name] for name in ("DisplayName",) if name in new}
    return Physical(arn, {"TopicArn": arn, "TopicName": arn.rsplit(":", 1)[-1], **stated})


class SnsSubscription(ResourceType):
    type = "AWS::SNS::Subscription"
    create_only = frozenset({"Endpoint", "Protocol", "TopicArn"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arn = _sns(properties, logical).subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties.get("Endpoint", ""),
            Attributes=_attributes(_SUBSCRIPTION_ATTRIBUTES, properties),
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        return Physical(arn, {"Arn": arn})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for change in _changed(_SUBSCRIPTION_ATTRIBUTES, old, new):
            _sns(new, logical).set_subscription_attributes(SubscriptionArn=physical, **change)
        return Physical(physical, {"Arn": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        _sns(properties, logical).unsubscribe(SubscriptionArn=physical)


def _sns(subscription: Properties, logical: Logical) -> Any:
    """SNS of the topic's region, where the property Region says that it is another."""
    return logical.aws.client("sns", subscription.get("Region"))


# What the default policy of a topic allows to its owner's account.
_OF_OWNERS = (
    "GetTopicAttributes",
    "SetTopicAttributes",
    "AddPermission",
    "RemovePermission",
    "DeleteTopic",
    "Subscribe",
    "ListSubscriptionsByTopic",
    "Publish",
)


class SnsTopicPolicy(ResourceType):
    """The access policy of one or more topics."""

    type = "AWS::SNS::TopicPolicy"
    required = ("PolicyDocument", "Topics")

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        dropped = [topic for topic in old.get("Topics", []) if topic not in new["Topics"]]
        self.delete(physical, {"Topics": dropped}, logical)
        _set_policy(new["Topics"], new["PolicyDocument"], logical)
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        """Puts the default policy back: a topic always has one."""
        for topic in properties["Topics"]:
            statement = {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": [f"SNS:{action}" for action in _OF_OWNERS],
                "Resource": topic,
                "Condition": {"StringEquals": {"AWS:SourceOwner": logical.aws.account}},
            }
            default = {
                "Version": "2008-10-17",
                "Id": "__default_policy_ID",
                "Statement": [statement],
            }
            _set_policy([topic], default, logical)


def _set_policy(topics: Sequence[str], document: Any, logical: Logical) -> None:
    policy = {"AttributeName": "Policy", "AttributeValue": json.dumps(document)}
    for topic in topics:
        logical.client("sns").set_topic_attributes(TopicArn=topic, **policy)
