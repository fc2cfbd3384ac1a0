"""[variants.NAME.serverless]: memory and concurrency in the place of instances."""

from typing import Annotated, Literal

from pydantic import Field

from infra.catalog.limits import least, most
from infra.parameters.table import Table

CONCURRENCY = "ServerlessMaxConcurrency"
PROVISIONED = "ServerlessProvisionedConcurrency"
Provisioned = Annotated[int, Field(ge=least(PROVISIONED), le=most(PROVISIONED))]


class Serverless(Table):
    """Nothing runs and nothing is paid without a request; the first one waits for a cold start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    """

    memory_mib: Literal[1024, 2048, 3072, 4096, 5120, 6144] = Field(
        description="Memory of one container; its share of CPUs grows with it."
    )
    max_concurrency: Annotated[int, Field(ge=least(CONCURRENCY), le=most(CONCURRENCY))] = Field(
        description="Requests that are answered at the same time; one more is throttled."
    )
    provisioned_concurrency: Provisioned | None = Field(
        default=None,
        description="Containers that are kept warm and paid for. Left out, none.",
    )
    max_provisioned_concurrency: Provisioned | None = Field(
        default=None,
        description="Most that scaling may keep warm. Left out, provisioned_concurrency.",
    )

    @property
    def most_provisioned(self) -> int:
        return self.max_provisioned_concurrency or self.provisioned_concurrency or 0
