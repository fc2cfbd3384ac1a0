"""[capture]: samples of what was asked and answered, kept for later."""

from typing import Annotated

from pydantic import Field

from infra.parameters.kms_key import KmsKeyArn
from infra.parameters.table import Table


class Capture(Table):
    """Written by SageMaker to a bucket of the retained stack ENV/data, encrypted."""

    sample_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=10,
        description="Share of the requests that is kept. 10 shows a drift of the inputs within hours; "
        "100 doubles what every request writes.",
    )
    requests: bool = Field(default=True, description="Whether bodies of requests are kept.")
    answers: bool = Field(default=True, description="Whether bodies of answers are kept.")
    keep_days: Annotated[int, Field(ge=1, le=3650)] = Field(
        default=30,
        description="Days until a sample is deleted. 30 compares this month with the last.",
    )
    kms_key: KmsKeyArn | None = Field(
        default=None,
        description="KMS key of the samples. Left out, the stack ENV/data makes one. Its policy must "
        "allow what docs/permissions.md says.",
    )
