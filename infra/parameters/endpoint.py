"""[endpoint], [network], [security], [traffic], [capture], and [asynchronous]: what all variants share."""

from typing import Annotated, Literal

from pydantic import Field

from infra.catalog.limits import find_maximum
from infra.parameters.monitoring import Address
from infra.parameters.table import (
    OR_TOKEN,
    UNIQUE,
    KmsKeyArn,
    ProjectPath,
    RoleArn,
    Table,
    build_range,
)
from servable_scaling.rehearsal import ProfileName

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RetentionDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288,
    3653,
]  # fmt: skip


# https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html (2026-11-22)
PolicyArn = Annotated[
    str, Field(pattern=r"^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[a-zA-Z0-9+=,.@_/-]{1,576}$")
]
IamPath = Annotated[str, Field(pattern=r"^/([a-zA-Z0-9+=,.@_-]+/)+$", max_length=512)]


class EndpointTable(Table):
    name: str = Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", max_length=63)
    """Name that callers invoke: 1 to 63 letters, digits and hyphens, unique in its account and region.
    Changing it deletes the endpoint and creates another. Without [variants.NAME] it begins the names of the
    batches, and may be omitted: the environment's name, after that of the service."""
    protect: bool = False
    """true: `cdk destroy` fails (termination protection of the stack), and another name leaves
    the old endpoint running, outside the stack. To delete the endpoint, first deploy with false."""
    log_retention_days: RetentionDays = 30
    """Retention of the endpoint's logs, in days. 30 covers an incident and the month's review; by
    default SageMaker keeps logs forever."""
    log_removal: Literal["destroy", "retain"] = "destroy"
    """Removal policy of the log groups of the endpoint and of its golden requests when the stack is
    deleted or the endpoint renamed: destroy or retain. A retained group must be deleted, or imported
    into the new stack, before an endpoint of the same name is deployed again."""
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
    volume_kms_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=find_maximum("KmsKeyId"),
        pattern=r"^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key|alias)/|alias/)?[a-zA-Z0-9/_-]+$",
    )
    """KMS key (id, alias or ARN) of the instances' EBS volumes. If omitted, SageMaker encrypts them with
    a temporary key of its own."""
    log_kms_key: KmsKeyArn | None = None
    """KMS key of the endpoint's logs. If omitted, CloudWatch Logs encrypts them with its own key. The
    key's policy must allow what docs/reference/permissions.md lists."""
    archive_kms_keys: list[KmsKeyArn] = Field(default=[], json_schema_extra=UNIQUE)
    """KMS keys of published archives: the key of the bucket of `cdk bootstrap`, and keys that older
    archives in it are still encrypted with. Default: S3's own key, or the one that
    `cdk bootstrap --bootstrap-customer-key` creates. docs/security.md has the steps."""
    execution_role: RoleArn | None = None
    """ARN of an existing role of this account that SageMaker assumes for every model. The role must
    allow what docs/reference/permissions.md lists. If omitted, the stack creates a role for each model. The
    `execution_role` of a model takes precedence."""
    wake_seconds: Annotated[int, Field(ge=0, le=7200)] = 900
    """Seconds for which `servable invoke`, `verify` and other commands wait for an endpoint that sleeps,
    and an application that takes it from the stack's outputs. A start took 5 to 10 minutes as measured (GPU,
    2024 and 2026); 0 doesn't wait. Without sleep_after_minutes it has no effect."""
    callers: list[RoleArn] = Field(default=[], json_schema_extra=UNIQUE)
    """ARNs of roles of this account that get permission to invoke this endpoint, and no other."""


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html
Subnet = Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{8,32}$"), OR_TOKEN]
SecurityGroup = Annotated[str, Field(pattern=r"^sg-[0-9a-z]{8,32}$"), OR_TOKEN]


class Network(Table):
    """Both lists are given, or neither. The VPC needs a gateway endpoint for S3, where the model is."""

    subnets: list[Subnet] = Field(default=[], max_length=16, json_schema_extra=UNIQUE)
    """Subnets of the instances' network interfaces; subnets in two zones survive the loss of one zone.
    Default: SageMaker's own network."""
    security_groups: list[SecurityGroup] = Field(default=[], max_length=5, json_schema_extra=UNIQUE)
    """Security groups of the instances' network interfaces, in the same VPC."""


class Security(Table):
    """Requirements that the environment must meet. The ids of subnets and keys are given in their own
    tables."""

    network_isolation: bool = False
    """Whether every model's container is without network access, as with network_isolation."""
    require: list[Literal["network", "keys"]] = Field(default=[], json_schema_extra=UNIQUE)
    """network: the instances must be in a VPC. keys: everything at rest must be encrypted with your
    own key. One error lists every id that is missing."""
    permissions_boundary: PolicyArn | None = None
    """ARN of the managed policy that is the permissions boundary of every role created here. Default:
    none."""
    iam_path: IamPath | None = None
    """IAM path of every role and managed policy created here, for example /service/ranker/. A changed
    path replaces the roles, and with them the models and the whole fleet. Default: /."""


RequestsPerSecond = Annotated[float, Field(gt=0, le=1_000_000)]
# Larger than InvokeEndpoint takes, so that the rule can say what it does take.
Bytes = Annotated[int, Field(ge=1, le=10_000_000_000)]


class Traffic(Table):
    """Requests of the callers. `servable check --explain` lists rules whose key is omitted as not checked."""

    peak_rps: RequestsPerSecond | None = None
    """Requests per second of the busiest minute, all variants together."""
    quiet_rps: RequestsPerSecond | None = None
    """Requests per second of the quietest hour in which somebody deploys."""
    profile: ProfileName | None = None
    """Shape of a day between quiet_rps (default: a tenth of the peak) and peak_rps, for `servable
    rehearse`; `servable check` then names the minute in which a scaling policy comes too late."""
    day: ProjectPath | None = None
    """CSV file of minute,requests, relative to the project: a recorded day, instead of profile."""
    rows_per_request: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Rows in the largest request."""
    request_bytes: Bytes | None = None
    """Size of the largest request body, in bytes."""
    answer_bytes: Bytes | None = None
    """Size of the largest response body, in bytes."""
    content_types: list[Annotated[str, Field(pattern=r"^[\x20-\x7e]{1,128}$")]] = Field(default=[])
    """Content types of the requests, for example text/csv. `servable check` then checks whether the
    container converts them itself, and at what cost."""
    caller_timeout_ms: Annotated[float, Field(gt=0, le=600_000)] | None = None
    """Timeout of the callers, in milliseconds."""


class Capture(Table):
    """SageMaker writes samples, encrypted, to a bucket of the retained stack ENV/data."""

    sample_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Percentage of requests that are captured. 10 shows drift of the inputs within hours; with 100
    every request writes twice as much."""
    requests: bool = True
    """Whether request bodies are captured."""
    answers: bool = True
    """Whether response bodies are captured."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until a sample is deleted. 30 allows comparing this month with the last."""
    kms_key: KmsKeyArn | None = None
    """KMS key of the samples. If omitted, the stack ENV/data creates one. The key's policy must allow
    what docs/reference/permissions.md lists."""


INVOCATIONS = "MaxConcurrentInvocationsPerInstance"


class Asynchronous(Table):
    """Callers then use invoke_endpoint_async for the whole endpoint: bodies to 1 GB, answers in an hour.

    Requests, answers and failures lie in a bucket of the retained stack ENV/data.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html
    """

    max_concurrent_invocations_per_instance: Annotated[int, build_range(INVOCATIONS)] | None = None
    """Maximum number of concurrent requests to one container. If omitted, SageMaker chooses."""
    notify_success: list[Address] = Field(default=[], json_schema_extra=UNIQUE)
    """E-mail addresses and https URLs that are notified of every answer. The topic exists without them
    too, so that programs can subscribe to it."""
    notify_error: list[Address] = Field(default=[], json_schema_extra=UNIQUE)
    """E-mail addresses and https URLs that are notified of every failure."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until a request and its answer are deleted. 30 keeps last month's available."""
    kms_key: KmsKeyArn | None = None
    """KMS key of requests and answers. If omitted, the stack ENV/data creates one. The key's policy must
    allow what docs/reference/permissions.md lists."""
