"""Where alarms and events are sent, encrypted, and who reads them."""

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.parameters.alarms import Alarms
from infra.policy.permissions import PUBLISHING

Rule = events.CfnRule


class NotificationKey(Construct):
    """The given key, or one of our own that CloudWatch and EventBridge may use.

    The AWS-managed key of SNS would not do: its policy lets neither of them in.
    Source: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
    """

    def __init__(self, scope: Construct, construct_id: str, *, given_arn: str | None) -> None:
        super().__init__(scope, construct_id)
        if given_arn is not None:
            self.key = kms.Key.from_key_arn(self, "Given", given_arn)
            return
        own = kms.Key(
            self,
            "Resource",
            description="Encrypts the notifications of this endpoint",
            enable_key_rotation=True,
            pending_window=cdk.Duration.days(7),
            # It protects messages in flight and no data at rest: nothing is lost with it.
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        own.grant(alarms_of(self), *PUBLISHING)
        # Without a condition: EventBridge sends none that would hold for an encrypted topic.
        own.grant(iam.ServicePrincipal("events.amazonaws.com"), *PUBLISHING)
        self.key = own


def alarms_of(scope: Construct) -> iam.ServicePrincipal:
    """CloudWatch, on behalf of this account alone."""
    return iam.ServicePrincipal(
        "cloudwatch.amazonaws.com",
        conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}},
    )


class AlarmTopic(Construct):
    """An encrypted topic that CloudWatch may publish to, over TLS only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, notify: Sequence[str], key: kms.IKey
    ) -> None:
        """`notify`: e-mail addresses and https URLs."""
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        # A topic policy replaces the default one, which let alarms of the account publish.
        self.topic.grant_publish(alarms_of(self))
        for address in notify:
            self.topic.add_subscription(subscription(address))


def subscription(address: str) -> sns.ITopicSubscription:
    """Of an e-mail address or an https URL."""
    if address.startswith("https://"):
        return subscriptions.UrlSubscription(address)
    return subscriptions.EmailSubscription(address)


# https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
SOURCE = "aws.sagemaker"
DETAIL_TYPES = ["SageMaker Endpoint State Change", "SageMaker Endpoint Deployment State Change"]

# Of the first variant: all of them go through the stages of an update together. Places in
# lists: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
FIELDS = {
    "kind": "$.detail-type",
    "status": "$.detail.EndpointStatus",
    "time": "$.time",
    "config": "$.detail.EndpointConfigName",
    "stage": "$.detail.PendingDeploymentSummary.ProductionVariants[0].VariantStatus[0].StatusMessage",
    "reason": "$.detail.FailureReason",
}


class EndpointEvents(Construct):
    """Changes of the endpoint's and its deployments' state, as one line each, to a topic."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, inform: sns.ITopic
    ) -> None:
        super().__init__(scope, construct_id)
        Rule(
            self,
            "Resource",
            description=f"State changes of {endpoint_name} and of its deployments",
            event_pattern={
                "source": [SOURCE],
                "detail-type": DETAIL_TYPES,
                "detail": {"EndpointName": [endpoint_name]},
            },
            state="ENABLED",
            # CDK's own targets would load Lambda, ECS and more into every synth.
            targets=[
                Rule.TargetProperty(
                    arn=inform.topic_arn,
                    id="Topic",
                    input_transformer=Rule.InputTransformerProperty(
                        input_paths_map=FIELDS, input_template=json.dumps(said(endpoint_name))
                    ),
                )
            ],
        )
        inform.grant_publish(iam.ServicePrincipal("events.amazonaws.com"))


def said(endpoint_name: str) -> str:
    """One line; what is not in an event is empty there."""
    return (
        f"Endpoint {endpoint_name} (<kind>): <status> at <time>. "
        "Configuration <config>. Stage, where there is one: <stage> "
        "Reason, where there is one: <reason>"
    )


class Notifications:
    """The topic that is told of everything, the one that wakes somebody, and the endpoint's events."""

    def __init__(
        self, scope: Construct, *, endpoint_name: str, alarms: Alarms, key: kms.IKey
    ) -> None:
        """`key`: of the topics."""
        self.inform = AlarmTopic(scope, "AlarmTopic", notify=alarms.notify, key=key).topic
        self.page = self.inform
        """`inform` where nobody is named to be woken."""
        if alarms.page:
            self.page = AlarmTopic(scope, "PageTopic", notify=alarms.page, key=key).topic
        if alarms.events:
            EndpointEvents(scope, "Events", endpoint_name=endpoint_name, inform=self.inform)
