"""Permission for roles to invoke the endpoint."""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.acknowledged import accept_wildcards
from infra.constructs.endpoint.endpoint_base import EndpointBase


class EndpointCallers(Construct):
    """A policy on existing roles that allows invoking this endpoint and no other."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: EndpointBase,
        roles: Sequence[iam.IRole],
        path: str | None = None,
    ) -> None:
        """endpoint: The endpoint; with a queue the roles may also write requests and read responses.
        roles: Roles of this account.
        path: IAM path of the policy. Default: /.
        """
        super().__init__(scope, construct_id)
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=f"Invokes {endpoint.name}",
            path=path,
            statements=endpoint.invocations_allowed(),
            roles=list(roles),
        )
        if (at := endpoint.locations) is None:
            return
        written = [each.objects_arn for each in (at.requests, at.answers, at.failures)]
        why = "callers choose the request names, and SageMaker the response names; one prefix each"
        accept_wildcards(policy, dict.fromkeys(written, why))
