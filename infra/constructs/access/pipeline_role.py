"""What a pipeline of one repository may do in this account, without any key of its own."""

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.acknowledged import accept_wildcards

# https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
# Of `cdk bootstrap`: what the CDK CLI takes on. CloudFormation has its own, which nobody here may.
DEPLOYS = ("deploy", "file-publishing", "lookup")
READS = ("lookup",)
# What `servable verify`, `history` and `doctor` ask; these actions take no resource, or any.
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
LOOKS = (
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:DescribeScheduledActions",
    "cloudformation:ListExports",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:GetDashboard",
    "cloudwatch:GetMetricStatistics",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ecr:DescribeImages",
    "events:DescribeRule",
    "events:ListTargetsByRule",
    "kms:DescribeKey",
    "logs:DescribeLogGroups",
    "logs:DescribeMetricFilters",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    "sns:GetTopicAttributes",
    "sns:ListSubscriptionsByTopic",
)
WHY_ANY = "these actions only read, and take no resource or any"
WHY_PREFIX = "CloudFormation ends the names of what it makes: this is how those of the stack begin"


class PipelineRole(Construct):
    """Taken on by one subject of one repository: an environment of it, or its pull requests."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        provider_arn: str,
        subject: str,
        bootstrap_roles: Sequence[str],
        region: str,
        reads: Mapping[str, Sequence[str]],
    ) -> None:
        """`subject`: repo:OWNER/NAME:environment:ENV. `reads`: action -> ARNs beyond `LOOKS`."""
        super().__init__(scope, construct_id)
        trusted = iam.FederatedPrincipal(
            provider_arn,
            {"StringEquals": {f"{ISSUER}:aud": AUDIENCE, f"{ISSUER}:sub": subject}},
            "sts:AssumeRoleWithWebIdentity",
        )
        self.role = iam.Role(
            self,
            "Resource",
            assumed_by=trusted,
            description=f"Taken on by {subject}",
            # A linear rollout and its bakes take more than one hour, and the job has two.
            max_session_duration=cdk.Duration.hours(3),
        )
        stack = cdk.Stack.of(self)
        self._allow(
            ["sts:AssumeRole"],
            [
                stack.format_arn(
                    service="iam",
                    region="",
                    resource="role",
                    resource_name=f"cdk-hnb659fds-{kind}-role-{stack.account}-{region}",
                )
                for kind in bootstrap_roles
            ],
        )
        if reads:
            self._allow(list(LOOKS), ["*"])
        for action, places in reads.items():
            self._allow([action], list(places))

    def _allow(self, actions: list[str], resources: list[str]) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        why = {one: WHY_ANY if one == "*" else WHY_PREFIX for one in resources}
        accept_wildcards(self.role, why)
