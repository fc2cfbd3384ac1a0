"""A key of one's own, as the environment file names it."""

from typing import Annotated

from pydantic import Field

# An ARN and no alias: policies name the key itself, and an alias may move to another.
# https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id-key-ARN
KmsKeyArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$",
        max_length=2048,
    ),
]
