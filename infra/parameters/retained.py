"""[capture] and [asynchronous]: what is written to S3, in the retained stack ENV/data."""

from typing import Annotated

from pydantic import Field

from infra.catalog.limits import least, most
from infra.parameters.alarms import Address
from infra.parameters.table import KmsKeyArn, Table


class Capture(Table):
    """Written by SageMaker to a bucket of the retained stack ENV/data, encrypted."""

    sample_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Share of the requests that is kept. 10 shows a drift of the inputs within hours; 100 doubles
    what every request writes."""
    requests: bool = True
    """Whether bodies of requests are kept."""
    answers: bool = True
    """Whether bodies of answers are kept."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until a sample is deleted. 30 compares this month with the last."""
    kms_key: KmsKeyArn | None = None
    """KMS key of the samples. Left out, the stack ENV/data makes one. Its policy must allow what
    docs/permissions.md says."""


INVOCATIONS = "MaxConcurrentInvocationsPerInstance"


class Asynchronous(Table):
    """The whole endpoint is then asked with invoke_endpoint_async: bodies to 1 GB, answers within an hour.

    Requests, answers and failures lie in a bucket of the retained stack ENV/data.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html
    """

    max_concurrent_invocations_per_instance: (
        Annotated[int, Field(ge=least(INVOCATIONS), le=most(INVOCATIONS))] | None
    ) = None
    """Requests that one container is asked at the same time. Left out, SageMaker chooses."""
    notify_success: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs that are told of every answer. The topic is there without
    them too: programs subscribe to it."""
    notify_error: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs that are told of every failure."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until a request and its answer are deleted. 30 lets last month's be looked at."""
    kms_key: KmsKeyArn | None = None
    """KMS key of requests and answers. Left out, the stack ENV/data makes one. Its policy must
    allow what docs/permissions.md says."""
