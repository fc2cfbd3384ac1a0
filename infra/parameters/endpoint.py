"""[endpoint]: the name callers use, and its logs."""

from typing import Annotated, Literal

from pydantic import Field

from infra.catalog.limits import most
from infra.parameters.kms_key import KmsKeyArn
from infra.parameters.table import Table

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RetentionDays = Literal[
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
]

RoleArn = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[a-zA-Z0-9+=,.@_/-]{1,576}$"),
]


class Endpoint(Table):
    name: str = Field(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        max_length=63,
        description="What callers invoke: 1 to 63 letters, digits and hyphens, unique in its account "
        "and region. Changing it deletes the endpoint and creates another.",
    )
    log_retention_days: RetentionDays = Field(
        default=30,
        description="Days the endpoint's logs are kept. 30 covers an incident and the month's review; "
        "left to itself SageMaker keeps them for ever.",
    )
    volume_kms_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=most("KmsKeyId"),
        pattern=r"^[a-zA-Z0-9:/_-]+$",
        description="KMS key, by id or ARN, of the instances' EBS volumes. Left out, SageMaker "
        "encrypts them with a key of its own that it throws away.",
    )
    log_kms_key: KmsKeyArn | None = Field(
        default=None,
        description="KMS key of the endpoint's logs. Left out, CloudWatch Logs encrypts them with its "
        "own. Its policy must allow what docs/permissions.md says.",
    )
    callers: list[RoleArn] = Field(
        default=[],
        json_schema_extra={"uniqueItems": True},
        description="Roles of this account that may invoke this endpoint, and by this no other.",
    )
