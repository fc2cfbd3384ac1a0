"""[network]: the instances' place in a VPC."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_VpcConfig.html
Subnet = Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{8,32}$")]
SecurityGroup = Annotated[str, Field(pattern=r"^sg-[0-9a-z]{8,32}$")]


class Network(Table):
    """Both lists, or neither. The VPC needs a gateway endpoint for S3, where the model lies."""

    subnets: list[Subnet] = Field(
        default=[],
        max_length=16,
        json_schema_extra={"uniqueItems": True},
        description="Subnets of the instances' network interfaces; two zones survive the loss of one. "
        "Left out, SageMaker's own network.",
    )
    security_groups: list[SecurityGroup] = Field(
        default=[],
        max_length=5,
        json_schema_extra={"uniqueItems": True},
        description="Security groups of the instances' network interfaces, in the same VPC.",
    )
