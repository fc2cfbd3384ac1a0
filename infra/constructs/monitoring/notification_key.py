"""The key that notifications are encrypted with."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.policy.permissions import PUBLISHING


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
