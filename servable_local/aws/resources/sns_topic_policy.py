"""AWS::SNS::TopicPolicy: the access policy of one or more topics."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class SnsTopicPolicy(ResourceType):
    type = "AWS::SNS::TopicPolicy"

    def create(self, properties: Properties, request: Request) -> Made:
        _put(properties["Topics"], properties["PolicyDocument"], request)
        name = request.generate_name(64)
        return Made(name, {"Id": name})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        left = [topic for topic in old["Topics"] if topic not in new["Topics"]]
        _put(left, _owner_only(request), request)
        _put(new["Topics"], new["PolicyDocument"], request)
        return Made(physical_id, {"Id": physical_id})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        """A topic always has a policy: deleting puts the default one back."""
        _put(properties["Topics"], _owner_only(request), request)


def _put(topics: list[str], document: Any, request: Request) -> None:
    sns = request.client("sns")
    for topic in topics:
        sns.set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(document)
        )


def _owner_only(request: Request) -> dict[str, Any]:
    return {
        "Version": "2008-10-17",
        "Id": "__default_policy_ID",
        "Statement": [
            {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": ["SNS:Publish", "SNS:Subscribe"],
                "Resource": "*",
                "Condition": {"StringEquals": {"AWS:SourceOwner": request.aws.account}},
            }
        ],
    }
