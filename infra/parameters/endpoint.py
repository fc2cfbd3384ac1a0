"""[endpoint], [network], [security] and [traffic]: the endpoint's name, place, duties and callers."""

from typing import Annotated, Literal

from pydantic import Field

from infra.catalog.limits import most
from infra.parameters.table import KmsKeyArn, RoleArn, Table

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RetentionDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288,
    3653,
]  # fmt: skip


# https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html (2026-11-22)
PolicyArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[a-zA-Z0-9+=,.@_/-]{1,576}$",
    ),
]
IamPath = Annotated[str, Field(pattern=r"^/([a-zA-Z0-9+=,.@_-]+/)+$", max_length=512)]


class Endpoint(Table):
    name: str = Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", max_length=63)
    """What callers invoke: 1 to 63 letters, digits and hyphens, unique in its account and region.
    Changing it deletes the endpoint and creates another."""
    protect: bool = False
    """true: `cdk destroy` is refused (termination protection of the stack), and another name leaves
    the old endpoint running, outside the stack. To delete it, deploy with false first."""
    log_retention_days: RetentionDays = 30
    """Days the endpoint's logs are kept. 30 covers an incident and the month's review; left to
    itself SageMaker keeps them for ever."""
    log_removal: Literal["destroy", "retain"] = "destroy"
    """What becomes of the logs of the endpoint, and of golden requests, when the stack is deleted or
    the endpoint renamed: destroy or retain. A group that was retained must be deleted, or imported
    into the new stack, before an endpoint of the same name is deployed again."""
    volume_kms_key: str | None = Field(
        default=None, min_length=1, max_length=most("KmsKeyId"), pattern=r"^[a-zA-Z0-9:/_-]+$"
    )
    """KMS key, by id or ARN, of the instances' EBS volumes. Left out, SageMaker encrypts them with
    a key of its own that it throws away."""
    log_kms_key: KmsKeyArn | None = None
    """KMS key of the endpoint's logs. Left out, CloudWatch Logs encrypts them with its own. Its
    policy must allow what docs/permissions.md says."""
    archive_kms_keys: list[KmsKeyArn] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """KMS keys of what is published here: the key of the bucket of `cdk bootstrap`, and those that
    older archives in it are still encrypted with. Left out, S3's own, or the one that
    `cdk bootstrap --bootstrap-customer-key` makes. docs/security.md has the steps."""
    execution_role: RoleArn | None = None
    """A role of this account that SageMaker takes on for every model, by ARN: nothing is made for
    it, and it must allow what docs/permissions.md says. Left out, each model gets a role of its
    own. A model's own `execution_role` goes first."""
    callers: list[RoleArn] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """Roles of this account that may invoke this endpoint, and by this no other."""


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html
Subnet = Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{8,32}$")]
SecurityGroup = Annotated[str, Field(pattern=r"^sg-[0-9a-z]{8,32}$")]


class Network(Table):
    """Both lists, or neither. The VPC needs a gateway endpoint for S3, where the model lies."""

    subnets: list[Subnet] = Field(
        default=[], max_length=16, json_schema_extra={"uniqueItems": True}
    )
    """Subnets of the instances' network interfaces; two zones survive the loss of one. Left out,
    SageMaker's own network."""
    security_groups: list[SecurityGroup] = Field(
        default=[], max_length=5, json_schema_extra={"uniqueItems": True}
    )
    """Security groups of the instances' network interfaces, in the same VPC."""


class Security(Table):
    """What needs ids is only asked for here; the ids are given where they belong."""

    network_isolation: bool = False
    """Every model's container can call nobody, as if each had network_isolation."""
    require: list[Literal["network", "keys"]] = Field(
        default=[], json_schema_extra={"uniqueItems": True}
    )
    """network: the instances are in a VPC. keys: everything at rest is encrypted with a key of
    yours. What is then missing is one error that names it all."""
    permissions_boundary: PolicyArn | None = None
    """The managed policy, by ARN, that bounds every role that is made here. Left out, none."""
    iam_path: IamPath | None = None
    """The IAM path of every role and managed policy that is made here, as /service/ranker/. Another
    path makes other roles and so other models: the whole fleet is replaced. Left out, /."""


RequestsPerSecond = Annotated[float, Field(gt=0, le=1_000_000)]
# Larger than InvokeEndpoint takes, so that the rule can say what it does take.
Bytes = Annotated[int, Field(ge=1, le=10_000_000_000)]


class Traffic(Table):
    """What is left out is not checked, and `servable check` says so."""

    peak_rps: RequestsPerSecond | None = None
    """Requests per second of the busiest minute, all variants together."""
    quiet_rps: RequestsPerSecond | None = None
    """Requests per second of the quietest hour in which somebody deploys."""
    rows_per_request: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Rows of the largest request."""
    request_bytes: Bytes | None = None
    """Body of the largest request."""
    answer_bytes: Bytes | None = None
    """Body of the largest answer."""
    content_types: list[Annotated[str, Field(pattern=r"^[\x20-\x7e]{1,128}$")]] = Field(default=[])
    """Content types of the requests, as text/csv: whether the container converts them itself, and at
    what cost, is then checked."""
    caller_timeout_ms: Annotated[float, Field(gt=0, le=600_000)] | None = None
    """Milliseconds after which a caller gives up."""
