"""What a container may do: read its archive and image, write its logs and metrics."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.catalog.images import Image
from infra.constructs.archive import Archive, Prefix

# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createmodel-perms
PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
WRITE_LOGS = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]

# Why a resource has a wildcard, by a part of its ARN; the bare "*" last, which every one contains.
WILDCARDS = {
    "log-stream": "SageMaker names the streams of its containers after instances we cannot know",
    ":s3:::": "a prefix that carries the hash of the files under it, and no other of the bucket",
    ":alarm:": "alarms are named after configurations that do not exist yet; naming them is a circle",
    "*": "ecr:GetAuthorizationToken and cloudwatch:PutMetricData take no resource; the second is "
    "narrowed by namespace",
}


class ExecutionRole(Construct):
    """The role SageMaker takes on for one model, and its policy; no managed one.

    A model depends on the policy too: it reads the archive when it is created.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        archive: Archive,
        image: Image,
        log_group_arn: str,
        rollback_alarm_prefix: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        repository = stack.format_arn(
            service="ecr",
            region=image.region,
            account=image.account,
            resource="repository",
            resource_name=image.repository,
        )
        statements = [
            _allow(["s3:GetObject"], archive.objects),
            _allow(["ecr:GetAuthorizationToken"], "*"),
            _allow(PULL, repository),
            _allow(WRITE_LOGS, log_group_arn, f"{log_group_arn}:log-stream:*"),
            _put_metrics(),
        ]
        if archive.listed is not None:
            statements.append(_list(archive.listed))
        if rollback_alarm_prefix is not None:
            statements.append(_describe_alarms(stack, rollback_alarm_prefix))
        self.role = iam.Role(
            self, "Resource", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")
        )
        # Another archive, another policy beside the first, which goes when the update is through:
        # until then the old fleet still reads its own archive when it adds an instance.
        name = f"Policy{archive.fingerprint[:8]}"
        self.policy = iam.Policy(self, name, roles=[self.role], statements=statements)
        _acknowledge(self.policy, statements)


def _acknowledge(policy: iam.Policy, statements: Sequence[iam.PolicyStatement]) -> None:
    """Every wildcard, to cdk-nag, with the reason for it."""
    stack = cdk.Stack.of(policy)
    for resource in (one for statement in statements for one in statement.resources):
        if "*" not in resource:
            continue
        shown = stack.resolve(resource)
        reason = next(why for part, why in WILDCARDS.items() if part in resource)
        cdk.Validations.of(policy).acknowledge(
            cdk.Acknowledgment(id=f"AwsSolutions-IAM5[Resource::{shown}]", reason=reason)
        )


def _allow(actions: list[str], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=list(resources))


def _list(prefix: Prefix) -> iam.PolicyStatement:
    """Only below the prefix: the bucket holds every other asset too."""
    return iam.PolicyStatement(
        actions=["s3:ListBucket"],
        resources=[prefix.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [f"{prefix.name}*"]}},
    )


def _put_metrics() -> iam.PolicyStatement:
    """PutMetricData takes no resource; the namespace is what narrows it."""
    return iam.PolicyStatement(
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}},
    )


def _describe_alarms(stack: cdk.Stack, prefix: str) -> iam.PolicyStatement:
    """By prefix and not by name: role -> alarm -> configuration -> model -> role is a circle."""
    alarms = stack.format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name=f"{prefix}*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    return _allow(["cloudwatch:DescribeAlarms"], alarms)
