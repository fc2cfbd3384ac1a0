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
    "queue_key": "the key of requests and responses",
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

# Why a place's ARNs have a wildcard.
WILDCARDS = {
    "archive": "only for a model that is a prefix, which contains the hash of its files",
    "log_streams": "SageMaker names the streams after instances, which are not known beforehand",
    "rollback_alarms": "alarms are named after configurations that do not exist yet; naming them would be "
    "circular",
    "captured": "SageMaker names each sample by its hour and a unique ID",
    "core_dumps": "SageMaker names each dump itself",
    "requests": "callers name their requests",
    "answers": "SageMaker names each response by a unique ID",
    "batch_input": "the file names a prefix: a run takes every object under it",
    "batch_output": "a result is named after its object of the input",
    "batch_trial": "a copy is named after its job and its object of the input",
    "volume_key": "only for an alias, because its target key may change; narrowed to that alias",
    "interfaces": "SageMaker creates the interfaces, one per instance, and EC2 names them",
}

# A service uses a key on behalf of the role, never the role itself. The services' names end so in
# every partition.
# https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html (2026-11-22)
VIA = "kms:ViaService"


def build_s3_condition(region: str, service: str = "s3") -> dict[str, dict[str, str]]:
    """Return the condition of a statement that allows the use of a key only through S3, or `service`."""
    return {"StringEquals": {VIA: f"{service}.{region}.amazonaws.com"}}


@dataclass(frozen=True)
class Permission:
    """A permission, granted if all its resources exist. An action with empty `on` has none."""

    capability: str
    actions: tuple[str, ...]
    on: tuple[str, ...] = ()
    condition: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Operator to key to value; `{prefix}` in a value is the model's prefix, `{input}` that of a batch's
    input, `{region}` the stack's."""
    needs: tuple[str, ...] = ()
    """Resources that must exist although the permission is not on them."""
    reason: str = ""
    """The reason for a wildcard, unless that of a place is enough."""

    @property
    def wildcard(self) -> str | None:
        """Return the reason for a wildcard in a resource, or None without one."""
        return self.reason or next((WILDCARDS[one] for one in self.on if one in WILDCARDS), None)


def _build_key_permission(
    capability: str, actions: tuple[str, ...], key: str, service: str = "s3"
) -> Permission:
    """Build the permission to use a key through a service."""
    return Permission(capability, actions, (key,), build_s3_condition("{region}", service))


_DECRYPT, _ENCRYPT = ("kms:Decrypt",), ("kms:Encrypt", "kms:GenerateDataKey")
_BOTH = ("kms:Decrypt", "kms:GenerateDataKey")
_LIST, _READ = ("s3:ListBucket",), ("s3:GetObject",)
_PUT, _WRITE = ("s3:PutObject",), ("s3:AbortMultipartUpload", "s3:PutObject")
PERMISSIONS: tuple[Permission, ...] = (
    Permission("read the model", _READ, ("archive",)),
    _build_key_permission(
        "decrypt the model (endpoint.archive_kms_keys, artifact.kms_key)", _DECRYPT, "archive_keys"
    ),
    Permission(
        "list the files of a model that is a prefix",
        _LIST,
        ("bucket",),
        {"StringLike": {"s3:prefix": "{prefix}*"}},
    ),
    Permission(
        "pull the image",
        ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        ("repository",),
    ),
    Permission(
        "log in to the image's registry",
        ("ecr:GetAuthorizationToken",),
        reason="ecr:GetAuthorizationToken doesn't support resource-level permissions",
    ),
    Permission(
        "write logs",
        ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
        ("log_group", "log_streams"),
    ),
    Permission(
        "publish metrics",
        ("cloudwatch:PutMetricData",),
        condition={"StringLike": {"cloudwatch:namespace": "AWS/SageMaker,/aws/sagemaker/*"}},
        reason="cloudwatch:PutMetricData doesn't support metrics as resources; narrowed by namespace",
    ),
    Permission(
        "roll back an update ([rollout])", ("cloudwatch:DescribeAlarms",), ("rollback_alarms",)
    ),
    Permission("capture samples ([capture])", _PUT, ("captured",)),
    _build_key_permission("encrypt samples ([capture])", _BOTH, "capture_key"),
    Permission("write core dumps (core_dumps)", _PUT, ("core_dumps",)),
    Permission("encrypt core dumps (core_dumps.kms_key)", _ENCRYPT, ("core_dump_key",)),
    Permission("read requests ([asynchronous])", _READ, ("requests",)),
    Permission("write answers ([asynchronous])", _WRITE, ("answers",)),
    _build_key_permission("encrypt requests and responses ([asynchronous])", _BOTH, "queue_key"),
    Permission("publish notifications ([asynchronous])", ("sns:Publish",), ("topics",)),
    _build_key_permission("encrypt notifications ([asynchronous])", _BOTH, "topic_key", "sns"),
    Permission(
        "create the log group of transform jobs ([batch])",
        ("logs:CreateLogGroup",),
        ("batch_log_group",),
    ),
    Permission(
        "list the input of a batch ([batch])",
        _LIST,
        ("batch_bucket",),
        {"StringLike": {"s3:prefix": "{input}*"}},
    ),
    Permission("read the input of a batch ([batch])", _READ, ("batch_input",)),
    _build_key_permission(
        "decrypt the input of a batch (batch.NAME.input_kms_key)", _DECRYPT, "batch_input_key"
    ),
    Permission("write the results of a batch ([batch])", _WRITE, ("batch_output",)),
    Permission(
        "list the first rows that `servable batch --limit` copies ([batch])",
        _LIST,
        ("batch_output_bucket",),
        {"StringLike": {"s3:prefix": "{trial}*"}},
    ),
    Permission(
        "read the first rows that `servable batch --limit` copies ([batch])",
        _READ,
        ("batch_trial",),
    ),
    _build_key_permission(
        "encrypt the results of a batch (batch.NAME.output_kms_key)", _BOTH, "batch_output_key"
    ),
    Permission(
        "encrypt volumes (endpoint.volume_kms_key)",
        ("kms:CreateGrant",),
        ("volume_key",),
        {"Bool": {"kms:GrantIsForAWSResource": "true"}},
    ),
    Permission(
        "join the VPC ([network])",
        ("ec2:CreateNetworkInterface",),
        ("subnets", "security_groups", "interfaces"),
        reason="an interface has no ID before it exists; its subnet and groups are named by id, and "
        "if another account shares them (AWS RAM) their ARNs name that account",
    ),
    Permission(
        "attach and delete network interfaces ([network])",
        (
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
        ),
        ("interfaces",),
        needs=("subnets",),
    ),
    Permission(
        "describe the VPC ([network])",
        (
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ),
        needs=("subnets",),
        reason="EC2's Describe actions don't support resource-level permissions",
    ),
)


def select_permissions(places: Mapping[str, Sequence[str]]) -> list[Permission]:
    """Return the permissions of a deployment that has these resources (name to ARNs)."""
    return [
        permission
        for permission in PERMISSIONS
        if all(places.get(place) for place in (*permission.on, *permission.needs))
    ]


ENOUGH = "none; a key policy that delegates to the account's IAM policies is enough"

# Actions that are needed to publish to a topic that is encrypted with the key.
PUBLISHING = ("kms:Decrypt", "kms:GenerateDataKey*")


@dataclass(frozen=True)
class KeyPermission:
    key: str
    """Key of the environment file."""
    who: str
    actions: tuple[str, ...]
    condition: str


_READERS = "the model's role; the role that runs `servable verify`"
_THROUGH: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("endpoint.archive_kms_keys", _READERS, _DECRYPT, "s3"),
    ("models.NAME.artifact.kms_key", _READERS, _DECRYPT, "s3"),
    ("alarms.topic_kms_key", "the model's role, with [asynchronous]", _BOTH, "sns"),
    ("asynchronous.kms_key", "the model's role, and the callers", _BOTH, "s3"),
    ("variants.NAME.core_dumps.kms_key", "the model's role", _ENCRYPT, "s3"),
    ("capture.kms_key", "the model's role", _BOTH, "s3"),
    ("batch.NAME.input_kms_key", "the model's role", _DECRYPT, "s3"),
    ("batch.NAME.output_kms_key", "the model's role", _BOTH, "s3"),
)
KEY_PERMISSIONS = (
    KeyPermission(
        "alarms.topic_kms_key",
        "cloudwatch.amazonaws.com",
        PUBLISHING,
        "aws:SourceAccount is the account",
    ),
    KeyPermission(
        "alarms.topic_kms_key",
        "events.amazonaws.com",
        PUBLISHING,
        "none: EventBridge doesn't send a source to an encrypted topic",
    ),
    KeyPermission(
        "endpoint.log_kms_key",
        "logs.REGION.amazonaws.com",
        ("kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"),
        "kms:EncryptionContext:aws:logs:arn is the log group "
        "/aws/sagemaker/Endpoints/ENDPOINT, with golden requests also "
        "/aws/lambda/ENDPOINT-golden-requests, with [batch.NAME] also "
        "/aws/vendedlogs/states/ENDPOINT-NAME",
    ),
    KeyPermission(
        "endpoint.volume_kms_key",
        "the role that deploys, the model's role, and with [batch] that of the state machine",
        ("kms:CreateGrant", "kms:DescribeKey"),
        "kms:GrantIsForAWSResource is true",
    ),
    KeyPermission(
        "endpoint.archive_kms_keys",
        "the bootstrap's file publishing role",
        ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*"),
        ENOUGH,
    ),
    *(
        KeyPermission(key, who, actions, f"{VIA} is {service}.REGION.amazonaws.com, or {ENOUGH}")
        for key, who, actions, service in _THROUGH
    ),
)
