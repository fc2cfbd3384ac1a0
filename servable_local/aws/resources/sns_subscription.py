"""AWS::SNS::Subscription. An e-mail address is subscribed; no mail is sent."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType

_ATTRIBUTES = (
    "DeliveryPolicy",
    "FilterPolicy",
    "FilterPolicyScope",
    "RawMessageDelivery",
    "RedrivePolicy",
    "SubscriptionRoleArn",
)


class SnsSubscription(ResourceType):
    type = "AWS::SNS::Subscription"
    create_only = frozenset({"Endpoint", "Protocol", "TopicArn"})

    def create(self, properties: Properties, request: Request) -> Made:
        made = request.client("sns").subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties.get("Endpoint", ""),
            Attributes=_attributes(properties),
            ReturnSubscriptionArn=True,
        )
        arn = made["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        before, after = _attributes(old), _attributes(new)
        for name in {*before, *after}:
            if before.get(name) != after.get(name):
                request.client("sns").set_subscription_attributes(
                    SubscriptionArn=physical_id,
                    AttributeName=name,
                    AttributeValue=after.get(name, ""),
                )
        return Made(physical_id, {"Arn": physical_id})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("sns").unsubscribe(SubscriptionArn=physical_id)


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: _text(properties[name]) for name in _ATTRIBUTES if name in properties}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
