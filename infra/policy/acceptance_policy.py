"""The policy of the role of an acceptance run's workflow: it allows what `servable accept` itself calls.

Stacks are deployed by the bootstrap's roles and deleted by CloudFormation's, which this role cannot pass on.
Conditions and resources of each action: https://docs.aws.amazon.com/service-authorization/latest/reference/
(pages of each service; not read again for this table, 2026-11-28).
"""

from collections.abc import Iterator
from typing import Any

from infra.policy.account_names import BOOTSTRAP_BUCKET, BOOTSTRAP_VERSION, LINKED_ROLE
from infra.policy.permissions import via_s3

PREFIX = "servable-accept"
"""Every name begins with it: stacks, endpoints, roles, log groups, buckets."""
TAG = "servable:accept"
"""The key of the tag of everything that takes tags; its value is the run's id."""

# Operations that take no resource, or look for what is left by listing all.
ACCEPT_LOOKS = (
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingActivities",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:DescribeScheduledActions",
    "cloudformation:DescribeStacks",
    "cloudformation:ListExports",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:GetMetricStatistics",
    "cloudwatch:ListMetrics",
    "kms:ListKeys",
    "logs:DescribeLogGroups",
    "s3:ListAllMyBuckets",
    "sagemaker:ListEndpoints",
    "sagemaker:ListTransformJobs",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
)
_NAMED = f"{PREFIX}-*"
_HERE = "{region}:{account}"
_ASSETS = f"s3:::{BOOTSTRAP_BUCKET}"
# Service, its operations, ARNs without their partition.
_ON_NAMES = (
    ("cloudformation", "CancelUpdateStack DeleteStack DescribeStackEvents GetTemplate ListStackResources",
     f"cloudformation:{_HERE}:stack/{_NAMED}/*"),
    ("cloudwatch", "GetDashboard", f"cloudwatch::{{account}}:dashboard/{_NAMED}"),
    ("events", "DescribeRule ListTargetsByRule", f"events:{_HERE}:rule/{_NAMED}"),
    ("iam", "GetRole GetRolePolicy", f"iam::{{account}}:role/{_NAMED}"),
    ("iam", "GetRole",
     f"iam::{{account}}:role/aws-service-role/{LINKED_ROLE}"),
    ("kms", "ListResourceTags", f"kms:{_HERE}:key/*"),  # how a key of a run is found
    ("logs", "DescribeMetricFilters DeleteLogGroup",
     f"logs:{_HERE}:log-group:/aws/sagemaker/Endpoints/{_NAMED}"),
    ("logs", "DescribeMetricFilters DeleteLogGroup",
     f"logs:{_HERE}:log-group:/aws/sagemaker/InferenceComponents/{_NAMED}"),
    ("logs", "DeleteLogGroup", f"logs:{_HERE}:log-group:/aws/lambda/{_NAMED}"),
    ("logs", "DeleteLogGroup", f"logs:{_HERE}:log-group:/aws/vendedlogs/states/{_NAMED}"),
    ("s3", "CreateBucket DeleteBucket GetBucketPolicy GetBucketPublicAccessBlock GetBucketTagging "
     "GetBucketVersioning GetEncryptionConfiguration ListBucket ListBucketVersions PutBucketTagging",
     f"s3:::{_NAMED}"),
    ("s3", "DeleteObject DeleteObjectVersion GetObject PutObject", f"s3:::{_NAMED}/*"),
    ("s3", "GetBucketTagging GetEncryptionConfiguration ListBucket", _ASSETS),
    ("s3", "GetObject", f"{_ASSETS}/*"),
    ("sagemaker", "DeleteEndpoint DescribeEndpoint InvokeEndpoint InvokeEndpointAsync ListTags",
     f"sagemaker:{_HERE}:endpoint/{_NAMED}"),
    ("sagemaker", "DescribeInferenceComponent InvokeEndpoint",
     f"sagemaker:{_HERE}:inference-component/{_NAMED}"),
    # CloudFormation names these, and whether a stack's tags come to them was seen in no account.
    ("sagemaker", "DescribeModel", f"sagemaker:{_HERE}:model/*"),
    ("sagemaker", "DescribeEndpointConfig", f"sagemaker:{_HERE}:endpoint-config/*"),
    ("sagemaker", "CreateTransformJob DescribeTransformJob StopTransformJob",
     f"sagemaker:{_HERE}:transform-job/{_NAMED}"),
    ("sns", "GetTopicAttributes", f"sns:{_HERE}:{_NAMED}"),
    ("ssm", "GetParameter", f"ssm:{_HERE}:parameter{BOOTSTRAP_VERSION}"),
    ("states", "DescribeStateMachine", f"states:{_HERE}:stateMachine:{_NAMED}"),
)  # fmt: skip
_TAGGED = {"StringLike": {f"aws:ResourceTag/{TAG}": "*"}}


def acceptance_statements(
    *, partition: str, account: str, region: str
) -> Iterator[tuple[list[str], list[str], dict[str, Any] | None]]:
    """Yield actions, ARNs and condition of each statement but those of `ACCEPT_LOOKS`."""

    def row(
        service: str, operations: str, resource: str, condition: dict[str, Any] | None
    ) -> tuple[list[str], list[str], dict[str, Any] | None]:
        arn = f"arn:{partition}:{resource.format(account=account, region=region)}"
        return [f"{service}:{operation}" for operation in operations.split()], [arn], condition

    for named in _ON_NAMES:
        yield row(*named, None)
    # AWS names keys; the stacks' tag is on them.
    yield row("kms", "DescribeKey ScheduleKeyDeletion", f"kms:{_HERE}:key/*", _TAGGED)
    # Requests and answers of the asynchronous endpoint.
    through_s3 = {**_TAGGED, **via_s3(region)}
    yield row("kms", "Decrypt GenerateDataKey", f"kms:{_HERE}:key/*", through_s3)
    # A scalable target takes no tag from a template.
    namespace = {"application-autoscaling:service-namespace": "sagemaker"}
    target = f"application-autoscaling:{_HERE}:scalable-target/*"
    service, operation = "application-autoscaling", "RegisterScalableTarget"
    yield row(service, operation, target, {"StringEquals": namespace})
