"""The IAM roles that a repository's GitHub workflows assume without access keys."""

import re
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import accept_wildcards
from infra.policy.permissions import build_s3_condition

# https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
# Roles of `cdk bootstrap` that the CDK CLI assumes; it doesn't assume CloudFormation's own role.
DEPLOYS = ("deploy", "file-publishing", "lookup")
# Actions of `servable verify`, `history` and `doctor` that take no resource, or any.
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
# Actions of `servable plan` that take no resource.
PLAN_LOOKS = ("application-autoscaling:DescribeScalableTargets", "logs:DescribeLogGroups")
# `servable pin --newest` lists the versions of a group.
PIN_LOOKS = ("sagemaker:ListModelPackages",)
WHY_ANY = "these actions only read, and accept no resource or need every resource"
WHY_PREFIX = "CloudFormation adds suffixes to the names it generates; this is the stack's prefix"
REPOSITORY = re.compile(r"(?P<owner>[A-Za-z0-9_-]+)@[0-9]+/(?P<name>[A-Za-z0-9._-]+)@[0-9]+")


def list_subjects(repository: str, claim: str) -> list[str]:
    """Return both formats in which GitHub names a workflow's subject.

    `repository` is OWNER@ID/NAME@ID; without IDs it raises ValueError. Repositories created,
    renamed, or transferred since 2026-07-15 send the format with IDs; older ones send names until
    they opt in. A new owner of an abandoned name has a new repository, which sends IDs.
    Source: https://docs.github.com/en/actions/reference/security/oidc#immutable-subject-claims
    (2026-11-22)
    """
    match = REPOSITORY.fullmatch(repository)
    if match is None:
        raise ValueError(
            f"-c pipeline={repository!r} is not OWNER@ID/NAME@ID, such as octocat@123456/my-repo@456789; "
            "to print it, run: gh api repos/OWNER/NAME --jq "
            """'"\\(.owner.login)@\\(.owner.id)/\\(.name)@\\(.id)"'"""
        )
    return [f"repo:{match['owner']}/{match['name']}:{claim}", f"repo:{repository}:{claim}"]


class PipelineRole(Construct):
    """A role for one subject of a repository: an environment, a branch, or pull requests."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        provider_arn: str,
        repository: str,
        claim: str,
        region: str,
        bootstrap_roles: Sequence[str] = (),
        looks: Sequence[str],
        reads: Mapping[str, Sequence[str]],
        roles: RoleRules,
    ) -> None:
        """Create the role, which may assume the `bootstrap_roles` of `cdk bootstrap`.

        `looks` are actions on any resource, and `reads` maps actions to ARNs.
        """
        super().__init__(scope, construct_id)
        subjects = list_subjects(repository, claim)
        expected = {f"{ISSUER}:aud": AUDIENCE, f"{ISSUER}:sub": subjects}
        self.role = iam.Role(
            self,
            "Resource",
            assumed_by=iam.FederatedPrincipal(
                provider_arn, {"StringEquals": expected}, "sts:AssumeRoleWithWebIdentity"
            ),
            description=f"Assumed by {subjects[0]}",
            # A linear rollout with its bakes takes more than an hour; the job's limit is two hours.
            max_session_duration=cdk.Duration.hours(3),
            **roles.properties(self),
        )
        stack = cdk.Stack.of(self)
        every = f"arn:{stack.partition}:iam::{stack.account}:role/cdk-hnb659fds"
        assumed = [f"{every}-{kind}-role-{stack.account}-{region}" for kind in bootstrap_roles]
        allowed = [(["sts:AssumeRole"], assumed)] if assumed else []
        allowed += [([*looks], ["*"]), *(([action], [*arns]) for action, arns in reads.items())]
        for actions, resources in allowed:
            through_s3 = build_s3_condition(region) if actions[0].startswith("kms:") else None
            self.role.add_to_policy(
                iam.PolicyStatement(actions=actions, resources=resources, conditions=through_s3)
            )
            why = {resource: WHY_ANY if resource == "*" else WHY_PREFIX for resource in resources}
            accept_wildcards(self.role, why)
