"""The IAM roles that a repository's GitHub workflows assume without access keys."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import accept_wildcards
from infra.policy.permissions import build_s3_condition

# https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
# Roles of `cdk bootstrap` that the CDK CLI assumes. CloudFormation's own role is not among them.
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
PLAN_LOOKS = (
    "application-autoscaling:DescribeScalableTargets",
    "logs:DescribeLogGroups",
)
# `servable pin --newest` lists the versions of a group.
PIN_LOOKS = ("sagemaker:ListModelPackages",)
WHY_ANY = "these actions only read, and take no resource or any"
WHY_PREFIX = "CloudFormation ends the names of what it makes: this is how those of the stack begin"


_LOGIN, _NAME = r"[A-Za-z0-9_-]+", r"[A-Za-z0-9._-]+"
REPOSITORY = re.compile(rf"(?P<owner>{_LOGIN})@[0-9]+/(?P<name>{_NAME})@[0-9]+")


def list_subjects(repository: str, claim: str) -> list[str]:
    """Return both forms in which GitHub names a workflow's subject.

    `repository` is OWNER@ID/NAME@ID. Repositories created, renamed, or transferred since
    2026-07-15 send the form with IDs; older ones send names until they opt in. Trusting both
    forms isn't wider: a new owner of an abandoned name has a new repository, which sends IDs.
    Raises ValueError for a repository without IDs.
    Source: https://docs.github.com/en/actions/reference/security/oidc#immutable-subject-claims
    (2026-11-22)
    """
    match = REPOSITORY.fullmatch(repository)
    if match is None:
        raise ValueError(
            f"-c pipeline={repository!r} is not OWNER@ID/NAME@ID, such as octocat@123456/my-repo@456789; "
            "this prints it: gh api repos/OWNER/NAME --jq "
            """'"\\(.owner.login)@\\(.owner.id)/\\(.name)@\\(.id)"'"""
        )
    return [
        f"repo:{match['owner']}/{match['name']}:{claim}",
        f"repo:{repository}:{claim}",
    ]


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
        """Create the role and its permissions.

        `repository` and `claim` are the arguments of `list_subjects`. `bootstrap_roles` are the
        roles of `cdk bootstrap` that it may assume. `roles` has the rules for its path and
        boundary. `looks` are actions on any resource, and `reads` maps actions to ARNs.
        """
        super().__init__(scope, construct_id)
        trusted = iam.FederatedPrincipal(
            provider_arn,
            {
                "StringEquals": {
                    f"{ISSUER}:aud": AUDIENCE,
                    f"{ISSUER}:sub": list_subjects(repository, claim),
                }
            },
            "sts:AssumeRoleWithWebIdentity",
        )
        self.role = iam.Role(
            self,
            "Resource",
            assumed_by=trusted,
            description=f"Assumed by {list_subjects(repository, claim)[0]}",
            # A linear rollout with its bakes takes more than one hour; the job's limit is two.
            max_session_duration=cdk.Duration.hours(3),
            **roles.properties(self),
        )
        stack = cdk.Stack.of(self)
        taken_on = [
            stack.format_arn(
                service="iam",
                region="",
                resource="role",
                resource_name=f"cdk-hnb659fds-{kind}-role-{stack.account}-{region}",
            )
            for kind in bootstrap_roles
        ]
        if taken_on:
            self._allow(["sts:AssumeRole"], taken_on)
        self._allow(list(looks), ["*"])
        for action, places in reads.items():
            condition = build_s3_condition(region) if action.startswith("kms:") else None
            self._allow([action], list(places), condition)

    def _allow(
        self, actions: list[str], resources: list[str], conditions: dict[str, Any] | None = None
    ) -> None:
        self.role.add_to_policy(
            iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
        )
        why = {resource: WHY_ANY if resource == "*" else WHY_PREFIX for resource in resources}
        accept_wildcards(self.role, why)
