"""Starts a GitHub workflow when a version in SageMaker's model registry is approved."""

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.access.pipeline_role import REPOSITORY
from infra.constructs.access.role_rules import RoleRules

WORKFLOW = "approved-model.yml"
BRANCH = "main"
# The workflow's daily schedule finds missed approvals: an hour of attempts is enough.
_ATTEMPTS_SECONDS = 3600


class ApprovalTrigger(Construct):
    """The EventBridge rule that sends approvals to GitHub's API; it runs no code in AWS.

    The token needs GitHub's permission "Actions: write" on this one repository, which can start
    existing workflows but can't change code; `repository_dispatch` would need "Contents: write".
    Sources:
    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-events-apidestination.html
    (2026-11-28), and GitHub's description of its API 1.1.4 (permissions of both kinds of
    dispatch).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: str,
        environment: str,
        groups: Sequence[str],
        token_secret: str,
        roles: RoleRules,
    ) -> None:
        """Create the rule, its role, and the API destination for `repository`, OWNER@ID/NAME@ID.

        `groups` are of this account and Region. `token_secret` is the secret's name or ARN.
        """
        super().__init__(scope, construct_id)
        destination = self._create_destination(repository, token_secret)
        own = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        invoke = iam.PolicyStatement(
            actions=["events:InvokeApiDestination"], resources=[destination.attr_arn]
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("events.amazonaws.com", conditions=own),
            # Inline, so that the rule depends on it too.
            inline_policies={"Invoke": iam.PolicyDocument(statements=[invoke])},
            **roles.properties(self),
        )
        approved = {"ModelPackageGroupName": list(groups), "ModelApprovalStatus": ["Approved"]}
        target = events.CfnRule.TargetProperty(
            id="GitHub",
            arn=destination.attr_arn,
            role_arn=role.role_arn,
            input=json.dumps({"ref": BRANCH, "inputs": {"environment": environment}}),
            retry_policy=events.CfnRule.RetryPolicyProperty(
                maximum_event_age_in_seconds=_ATTEMPTS_SECONDS
            ),
        )
        kind = "SageMaker Model Package State Change"
        events.CfnRule(
            self,
            "Rule",
            description=f"Approved versions of {', '.join(groups)} for {environment}",
            event_pattern={"source": ["aws.sagemaker"], "detail-type": [kind], "detail": approved},
            targets=[target],
        )

    def _create_destination(self, repository: str, token_secret: str) -> events.CfnApiDestination:
        """Create the API destination of the workflow, and the connection with the token.

        EventBridge sends the token in a header; CloudFormation reads it from the secret.
        """
        named = REPOSITORY.fullmatch(repository)
        assert named is not None  # the roles of the same stack have rejected other formats
        token = cdk.SecretValue.secrets_manager(token_secret).unsafe_unwrap()  # a reference to it
        key = {"apiKeyName": "Authorization", "apiKeyValue": f"Bearer {token}"}
        auth = {"apiKeyAuthParameters": key}
        connection = events.CfnConnection(
            self, "Connection", authorization_type="API_KEY", auth_parameters=auth
        )
        path = f"repos/{named['owner']}/{named['name']}/actions/workflows/{WORKFLOW}/dispatches"
        return events.CfnApiDestination(
            self,
            "Destination",
            connection_arn=connection.attr_arn,
            http_method="POST",
            invocation_endpoint=f"https://api.github.com/{path}",
            invocation_rate_limit_per_second=1,
        )
