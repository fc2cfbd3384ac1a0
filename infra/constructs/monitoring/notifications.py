"""Encrypted topics for alarms and endpoint events, and their subscriptions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.policy.permissions import PUBLISHING


class NotificationKey(Construct):
    """The given key, or a new one that CloudWatch and EventBridge may use.

    The AWS-managed key of SNS isn't enough, because its policy allows neither service.
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
            # It encrypts only messages in transit: deleting it loses no data.
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        own.grant(build_alarms_principal(self), *PUBLISHING)
        # There is no condition, because EventBridge sends no source to an encrypted topic.
        own.grant(iam.ServicePrincipal("events.amazonaws.com"), *PUBLISHING)
        self.key = own


def build_alarms_principal(scope: Construct) -> iam.ServicePrincipal:
    """Return the service principal of CloudWatch, restricted to this account."""
    own = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}}
    return iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=own)


class AlarmTopic(sns.Topic):
    """An encrypted topic that CloudWatch may publish to, over TLS only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, notify: Sequence[str], key: kms.IKey
    ) -> None:
        """Create the topic and its subscriptions, which are e-mail addresses and https URLs."""
        # Deployed topics have their logical IDs by this path.
        super().__init__(Construct(scope, construct_id), "Topic", master_key=key, enforce_ssl=True)
        # A topic policy replaces the default policy, which allowed alarms of the account to publish.
        self.grant_publish(build_alarms_principal(self))
        for address in notify:
            self.add_subscription(create_subscription(address))


def create_subscription(address: str) -> sns.ITopicSubscription:
    """Return the subscription for an e-mail address or an https URL."""
    if address.startswith("https://"):
        return subscriptions.UrlSubscription(address)
    return subscriptions.EmailSubscription(address)


# The two kinds of events, their fields and what is sent for scaling, 2026-11-22:
# https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
SOURCE = "aws.sagemaker"
STATE = "SageMaker Endpoint State Change"
DEPLOYMENT = "SageMaker Endpoint Deployment State Change"

PENDING = "$.detail.PendingDeploymentSummary"
FIELDS = {"status": "$.detail.EndpointStatus", "time": "$.time"}
# ID of a rule to its description, kind of events, further pattern, fields, and the line that is sent.
# A field that an event doesn't have is empty in its line.
RULES: Mapping[str, tuple[str, str, dict[str, Any], dict[str, str], str]] = {
    "Updates": (
        "Stages of updates",
        DEPLOYMENT,
        # Only an update has a pending deployment; scaling sends the same kind of event without one.
        {"PendingDeploymentSummary": {"EndpointConfigName": [{"exists": True}]}},
        # The stage is that of the first variant, because all variants go through the stages of an update
        # together. Indexes in lists:
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
        FIELDS
        | {
            "old": "$.detail.EndpointConfigName",
            "new": f"{PENDING}.EndpointConfigName",
            "stage": f"{PENDING}.ProductionVariants[0].VariantStatus[0].StatusMessage",
        },
        " is being updated to configuration <new>, from <old>: <status> at <time>. Stage, where there is "
        "one: <stage>",
    ),
    "Resource": (
        "Creation, deletion and failures",
        STATE,
        # An endpoint that scales is UPDATING, then IN_SERVICE, so these states alone don't show a failure. An
        # update that failed without a rollback is IN_SERVICE again, and has a reason.
        {
            "$or": [
                {"EndpointStatus": [{"anything-but": ["UPDATING", "IN_SERVICE"]}]},
                {"FailureReason": [{"exists": True}]},
            ]
        },
        FIELDS | {"config": "$.detail.EndpointConfigName", "reason": "$.detail.FailureReason"},
        ": <status> at <time>. Configuration in service: <config>. Reason, where there is one: <reason>",
    ),
}


class EndpointEvents(Construct):
    """Sends updates and failures of the endpoint to a topic, one line each; scaling sends none."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, inform: sns.ITopic
    ) -> None:
        super().__init__(scope, construct_id)
        for rule_id, (description, kind, matching, fields, line) in RULES.items():
            detail = {"EndpointName": [endpoint_name], **matching}
            transformer = events.CfnRule.InputTransformerProperty(
                input_paths_map=fields,
                input_template=json.dumps(f"Endpoint {endpoint_name}{line}"),
            )
            # CDK's own targets would load Lambda, ECS and more into every synth.
            target = events.CfnRule.TargetProperty(
                arn=inform.topic_arn, id="Topic", input_transformer=transformer
            )
            events.CfnRule(
                self,
                rule_id,
                description=f"{description} of {endpoint_name}",
                event_pattern={"source": [SOURCE], "detail-type": [kind], "detail": detail},
                state="ENABLED",
                targets=[target],
            )
        inform.grant_publish(iam.ServicePrincipal("events.amazonaws.com"))
