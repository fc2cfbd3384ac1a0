"""Who may ask the endpoint for predictions."""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct


class EndpointCallers(Construct):
    """One policy on roles that exist: InvokeEndpoint, on this endpoint and no other."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_arn: str, roles: Sequence[str]
    ) -> None:
        """`roles`: ARNs, of this account."""
        super().__init__(scope, construct_id)
        iam.ManagedPolicy(
            self,
            "Policy",
            description=f"Invokes {endpoint_arn.rpartition('/')[2]}",
            statements=[
                iam.PolicyStatement(actions=["sagemaker:InvokeEndpoint"], resources=[endpoint_arn])
            ],
            roles=[
                iam.Role.from_role_arn(self, f"Caller{number}", arn)
                for number, arn in enumerate(roles)
            ],
        )
