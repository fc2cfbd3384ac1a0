"""Who may ask the endpoint for predictions."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.model.execution_role import flat
from infra.constructs.model.places import QueuePlaces


class EndpointCallers(Construct):
    """One policy on roles that exist: InvokeEndpoint, on this endpoint and no other."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_arn: str,
        roles: Sequence[str],
        queued: QueuePlaces | None = None,
    ) -> None:
        """`roles`: ARNs, of this account. `queued`: they ask through the queue, and with its bucket."""
        super().__init__(scope, construct_id)
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=f"Invokes {endpoint_arn.rpartition('/')[2]}",
            statements=_asks(endpoint_arn) if queued is None else _queues(endpoint_arn, queued),
            roles=[
                iam.Role.from_role_arn(self, f"Caller{number}", arn)
                for number, arn in enumerate(roles)
            ],
        )
        for place in _prefixes(queued) if queued else ():
            cdk.Validations.of(policy).acknowledge(
                cdk.Acknowledgment(
                    id=f"AwsSolutions-IAM5[Resource::{flat(cdk.Stack.of(self).resolve(place))}]",
                    reason="callers name their requests, and SageMaker the answers; one prefix each",
                )
            )


def _asks(endpoint_arn: str) -> list[iam.PolicyStatement]:
    return [iam.PolicyStatement(actions=["sagemaker:InvokeEndpoint"], resources=[endpoint_arn])]


def _prefixes(queued: QueuePlaces) -> list[str]:
    places = (queued.requests, queued.answers, queued.failures)
    return [place.objects_arn for place in places]


def _queues(endpoint_arn: str, queued: QueuePlaces) -> list[iam.PolicyStatement]:
    requests, *written = _prefixes(queued)
    return [
        iam.PolicyStatement(actions=["sagemaker:InvokeEndpointAsync"], resources=[endpoint_arn]),
        iam.PolicyStatement(actions=["s3:PutObject"], resources=[requests]),
        iam.PolicyStatement(actions=["s3:GetObject"], resources=written),
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[queued.requests.key_arn]
        ),
    ]
