"""The base class of the tables of an environment file."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Table(BaseModel):
    """A frozen model that refuses unknown keys and converts no types: "12" is not 12."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


# An ARN and not an alias: policies name the key itself, and an alias may move to another key.
# https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id-key-ARN
KmsKeyArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$",
        max_length=2048,
    ),
]

RoleArn = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[a-zA-Z0-9+=,.@_/-]{1,576}$"),
]
