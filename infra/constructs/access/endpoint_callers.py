"""Permission for roles to invoke the endpoint."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.acknowledged import accept_wildcards
from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.storage.locations import AsyncInferenceLocations
from infra.policy.permissions import via_s3


class EndpointCallers(Construct):
    """A policy on existing roles that allows invoking this endpoint and no other."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        roles: Sequence[str],
        locations: AsyncInferenceLocations | None = None,
        path: str | None = None,
    ) -> None:
        """`roles` are ARNs of this account and `path` is the policy's IAM path. `locations` are those of
        requests and answers of an asynchronous endpoint."""
        super().__init__(scope, construct_id)
        statements = [
            iam.PolicyStatement(actions=[endpoint.kind.invoke_action], resources=endpoint.arns)
        ]
        written: list[str] = []
        if locations is not None:
            requests = locations.requests
            written = [locations.answers.objects_arn, locations.failures.objects_arn]
            statements += [
                iam.PolicyStatement(actions=["s3:PutObject"], resources=[requests.objects_arn]),
                iam.PolicyStatement(actions=["s3:GetObject"], resources=written),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=[requests.key_arn],
                    conditions=via_s3(cdk.Stack.of(self).region),
                ),
            ]
            written = [requests.objects_arn, *written]
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=f"Invokes {endpoint.name}",
            path=path,
            statements=statements,
            roles=[
                iam.Role.from_role_arn(self, f"Caller{number}", arn)
                for number, arn in enumerate(roles)
            ],
        )
        why = "callers name their requests, and SageMaker the answers; one prefix each"
        accept_wildcards(policy, dict.fromkeys(written, why))
