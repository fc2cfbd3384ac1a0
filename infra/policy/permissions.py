"""The permissions of a model's role, and those that the policy of the user's KMS key must allow.

The role and docs/reference/permissions.md are generated from these tables.
Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createmodel-perms,
https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId),
https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service,
bootstrap-template.yaml of aws-cdk 2.1148.1 (the file publishing role); read on 2026-11-22
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Name of a resource to its description in docs/reference/permissions.md; the name stands for the ARNs.
PLACES = {
    "archive": "the model's archive, or the files under its prefix, in S3",
    "archive_keys": "endpoint.archive_kms_keys, or the pinned archive's artifact.kms_key",
    "bucket": "the bucket of a model that is a prefix",
    "repository": "the image's repository in ECR",
    "log_group": "the endpoint's log group, or /aws/sagemaker/TransformJobs",
    "log_streams": "every stream of that log group",
    "rollback_alarms": "the alarms ENDPOINT-rollback-*",
    "captured": "the objects captured/* of the bucket in ENV/data",
    "capture_key": "the key of the samples",
    "core_dumps": "the objects under core_dumps.uri",
    "core_dump_key": "core_dumps.kms_key",
    "requests": "the objects requests/* of the queue's bucket in ENV/data",
    "answers": "the objects answers/* and failures/* of that bucket",
    "queue_key": "the key of requests and answers",
    "topics": "the success and the error topic",
    "topic_key": "the key of the notifications",
    "batch_log_group": "/aws/sagemaker/TransformJobs, which all transform jobs of the account share",
    "batch_bucket": "the bucket of a batch's input",
    "batch_input": "the objects under a batch's input",
    "batch_output": "the objects under a batch's output",
    "batch_output_bucket": "the bucket of a batch's output",
    "batch_trial": "the objects under servable-trial/ in a batch's output",
    "batch_input_key": "batch.NAME.input_kms_key",
    "batch_output_key": "batch.NAME.output_kms_key",
    "volume_key": "endpoint.volume_kms_key",
    "subnets": "network.subnets, in whichever account owns them",
    "security_groups": "network.security_groups, in whichever account owns them",
    "interfaces": "network interfaces of this account and region",
}

# A service uses a key on behalf of the role, never the role itself. The services' names end so in
# every partition.
# https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html (2026-11-22)
VIA = "kms:ViaService"


def build_s3_condition(region: str) -> dict[str, dict[str, str]]:
    """Return the condition of a statement that allows the use of a key only through S3."""
    return {"StringEquals": {VIA: f"s3.{region}.amazonaws.com"}}


@dataclass(frozen=True, kw_only=True)
class Permission:
    """A permission, granted if all its resources exist. An action with empty `on` has none."""

    capability: str
    actions: tuple[str, ...]
    on: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Resources that must exist although the permission is not on them."""
    condition: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Operator to key to value; `{prefix}` in a value is the model's prefix, `{input}` that of a batch's
    input, `{region}` the stack's."""
    wildcard: str | None = None
    """The reason for a wildcard in a resource; None without one."""


PERMISSIONS: tuple[Permission, ...] = (
    Permission(
        capability="read the model",
        actions=("s3:GetObject",),
        on=("archive",),
        wildcard="only for a model that is a prefix, which contains the hash of its files",
    ),
    Permission(
        capability="decrypt the model (endpoint.archive_kms_keys, artifact.kms_key)",
        actions=("kms:Decrypt",),
        on=("archive_keys",),
        condition=build_s3_condition("{region}"),
    ),
    Permission(
        capability="list the files of a model that is a prefix",
        actions=("s3:ListBucket",),
        on=("bucket",),
        condition={"StringLike": {"s3:prefix": "{prefix}*"}},
    ),
    Permission(
        capability="pull the image",
        actions=(
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:GetDownloadUrlForLayer",
        ),
        on=("repository",),
    ),
    Permission(
        capability="log in to the image's registry",
        actions=("ecr:GetAuthorizationToken",),
        wildcard="ecr:GetAuthorizationToken takes no resource",
    ),
    Permission(
        capability="write logs",
        actions=("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
        on=("log_group", "log_streams"),
        wildcard="SageMaker names the streams after instances, which are not known beforehand",
    ),
    Permission(
        capability="publish metrics",
        actions=("cloudwatch:PutMetricData",),
        condition={"StringLike": {"cloudwatch:namespace": "AWS/SageMaker,/aws/sagemaker/*"}},
        wildcard="cloudwatch:PutMetricData takes no resource for a metric; narrowed by namespace",
    ),
    Permission(
        capability="roll back an update ([rollout])",
        actions=("cloudwatch:DescribeAlarms",),
        on=("rollback_alarms",),
        wildcard="alarms are named after configurations that do not exist yet; naming them would be circular",
    ),
    Permission(
        capability="capture samples ([capture])",
        actions=("s3:PutObject",),
        on=("captured",),
        wildcard="SageMaker names each sample by its hour and a number of its own",
    ),
    Permission(
        capability="encrypt samples ([capture])",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        on=("capture_key",),
        condition=build_s3_condition("{region}"),
    ),
    Permission(
        capability="write core dumps (core_dumps)",
        actions=("s3:PutObject",),
        on=("core_dumps",),
        wildcard="SageMaker names each dump itself",
    ),
    Permission(
        capability="encrypt core dumps (core_dumps.kms_key)",
        actions=("kms:Encrypt", "kms:GenerateDataKey"),
        on=("core_dump_key",),
    ),
    Permission(
        capability="read requests ([asynchronous])",
        actions=("s3:GetObject",),
        on=("requests",),
        wildcard="callers name their requests",
    ),
    Permission(
        capability="write answers ([asynchronous])",
        actions=("s3:AbortMultipartUpload", "s3:PutObject"),
        on=("answers",),
        wildcard="SageMaker names each answer by a number of its own",
    ),
    Permission(
        capability="encrypt requests and answers ([asynchronous])",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        on=("queue_key",),
        condition=build_s3_condition("{region}"),
    ),
    Permission(
        capability="publish notifications ([asynchronous])",
        actions=("sns:Publish",),
        on=("topics",),
    ),
    Permission(
        capability="encrypt notifications ([asynchronous])",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        on=("topic_key",),
        condition={"StringEquals": {VIA: "sns.{region}.amazonaws.com"}},
    ),
    Permission(
        capability="make the log group of transform jobs ([batch])",
        actions=("logs:CreateLogGroup",),
        on=("batch_log_group",),
    ),
    Permission(
        capability="list the input of a batch ([batch])",
        actions=("s3:ListBucket",),
        on=("batch_bucket",),
        condition={"StringLike": {"s3:prefix": "{input}*"}},
    ),
    Permission(
        capability="read the input of a batch ([batch])",
        actions=("s3:GetObject",),
        on=("batch_input",),
        wildcard="the file names a prefix: a run takes every object under it",
    ),
    Permission(
        capability="decrypt the input of a batch (batch.NAME.input_kms_key)",
        actions=("kms:Decrypt",),
        on=("batch_input_key",),
        condition=build_s3_condition("{region}"),
    ),
    Permission(
        capability="write the results of a batch ([batch])",
        actions=("s3:AbortMultipartUpload", "s3:PutObject"),
        on=("batch_output",),
        wildcard="a result is named after its object of the input",
    ),
    Permission(
        capability="list the copy of first rows of `servable batch --limit` ([batch])",
        actions=("s3:ListBucket",),
        on=("batch_output_bucket",),
        condition={"StringLike": {"s3:prefix": "{trial}*"}},
    ),
    Permission(
        capability="read the copy of first rows of `servable batch --limit` ([batch])",
        actions=("s3:GetObject",),
        on=("batch_trial",),
        wildcard="a copy is named after its job and its object of the input",
    ),
    Permission(
        capability="encrypt the results of a batch (batch.NAME.output_kms_key)",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        on=("batch_output_key",),
        condition=build_s3_condition("{region}"),
    ),
    Permission(
        capability="encrypt volumes (endpoint.volume_kms_key)",
        actions=("kms:CreateGrant",),
        on=("volume_key",),
        condition={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        wildcard="only for an alias: the key behind it may change; narrowed to that alias",
    ),
    Permission(
        capability="join the VPC ([network])",
        actions=("ec2:CreateNetworkInterface",),
        on=("subnets", "security_groups", "interfaces"),
        wildcard="an interface has no name before it is made; its subnet and groups are named by id, and "
        "if another account shares them (AWS RAM) their ARNs name that account",
    ),
    Permission(
        capability="attach and delete network interfaces ([network])",
        actions=(
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
        ),
        on=("interfaces",),
        needs=("subnets",),
        wildcard="the interfaces are made by SageMaker, one for an instance, and named by EC2",
    ),
    Permission(
        capability="describe the VPC ([network])",
        actions=(
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ),
        needs=("subnets",),
        wildcard="EC2's Describe actions take no resource",
    ),
)


def select_permissions(places: Mapping[str, Sequence[str]]) -> list[Permission]:
    """Return the permissions of a deployment that has these resources (name to ARNs)."""
    return [
        permission
        for permission in PERMISSIONS
        if all(places.get(place) for place in (*permission.on, *permission.needs))
    ]


ENOUGH = "none; a key policy that lets the account's own policies decide is enough"

# Actions that are needed to publish to a topic that is encrypted with the key.
PUBLISHING = ("kms:Decrypt", "kms:GenerateDataKey*")


@dataclass(frozen=True, kw_only=True)
class KeyPermission:
    key: str
    """Key of the environment file."""
    who: str
    actions: tuple[str, ...]
    condition: str


_BOTH = ("kms:Decrypt", "kms:GenerateDataKey")
_READERS = "the model's role; the role that runs `servable verify`"
_THROUGH: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("endpoint.archive_kms_keys", _READERS, ("kms:Decrypt",), "s3"),
    ("models.NAME.artifact.kms_key", _READERS, ("kms:Decrypt",), "s3"),
    ("alarms.topic_kms_key", "the model's role, with [asynchronous]", _BOTH, "sns"),
    ("asynchronous.kms_key", "the model's role, and the callers", _BOTH, "s3"),
    (
        "variants.NAME.core_dumps.kms_key",
        "the model's role",
        ("kms:Encrypt", "kms:GenerateDataKey"),
        "s3",
    ),
    ("capture.kms_key", "the model's role", _BOTH, "s3"),
    ("batch.NAME.input_kms_key", "the model's role", ("kms:Decrypt",), "s3"),
    ("batch.NAME.output_kms_key", "the model's role", _BOTH, "s3"),
)
KEY_PERMISSIONS = (
    KeyPermission(
        key="alarms.topic_kms_key",
        who="cloudwatch.amazonaws.com",
        actions=PUBLISHING,
        condition="aws:SourceAccount is the account",
    ),
    KeyPermission(
        key="alarms.topic_kms_key",
        who="events.amazonaws.com",
        actions=PUBLISHING,
        condition="none: EventBridge sends no source to an encrypted topic",
    ),
    KeyPermission(
        key="endpoint.log_kms_key",
        who="logs.REGION.amazonaws.com",
        actions=(
            "kms:Encrypt*",
            "kms:Decrypt*",
            "kms:ReEncrypt*",
            "kms:GenerateDataKey*",
            "kms:Describe*",
        ),
        condition="kms:EncryptionContext:aws:logs:arn is the log group "
        "/aws/sagemaker/Endpoints/ENDPOINT, with golden requests also "
        "/aws/lambda/ENDPOINT-golden-requests, with [batch.NAME] also "
        "/aws/vendedlogs/states/ENDPOINT-NAME",
    ),
    KeyPermission(
        key="endpoint.volume_kms_key",
        who="the role that deploys, the model's role, and with [batch] that of the state machine",
        actions=("kms:CreateGrant", "kms:DescribeKey"),
        condition="kms:GrantIsForAWSResource is true",
    ),
    KeyPermission(
        key="endpoint.archive_kms_keys",
        who="the bootstrap's file publishing role",
        actions=(
            "kms:Decrypt",
            "kms:DescribeKey",
            "kms:Encrypt",
            "kms:ReEncrypt*",
            "kms:GenerateDataKey*",
        ),
        condition=ENOUGH,
    ),
    *(
        KeyPermission(
            key=key,
            who=who,
            actions=actions,
            condition=f"{VIA} is {service}.REGION.amazonaws.com, or {ENOUGH}",
        )
        for key, who, actions, service in _THROUGH
    ),
)
