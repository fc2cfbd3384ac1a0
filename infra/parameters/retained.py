"""[capture] and [asynchronous]: requests and answers in S3, in buckets of the retained stack ENV/data."""

from typing import Annotated

from pydantic import Field

from infra.catalog.limits import least, most
from infra.parameters.alarms import Address
from infra.parameters.table import KmsKeyArn, Table


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

    max_concurrent_invocations_per_instance: (
        Annotated[int, Field(ge=least(INVOCATIONS), le=most(INVOCATIONS))] | None
    ) = None
    """Maximum number of concurrent requests to one container. If omitted, SageMaker chooses."""
    notify_success: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs that are notified of every answer. The topic exists without them
    too, so that programs can subscribe to it."""
    notify_error: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs that are notified of every failure."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until a request and its answer are deleted. 30 keeps last month's available."""
    kms_key: KmsKeyArn | None = None
    """KMS key of requests and answers. If omitted, the stack ENV/data creates one. The key's policy must
    allow what docs/reference/permissions.md lists."""
