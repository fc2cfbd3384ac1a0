"""[security]: what an environment may not be deployed without."""

from typing import Literal

from pydantic import Field

from infra.parameters.table import Table


class Security(Table):
    """What needs ids is only asked for here; the ids are given where they belong."""

    network_isolation: bool = Field(
        default=False,
        description="Every model's container can call nobody, as if each had network_isolation.",
    )
    require: list[Literal["network", "keys"]] = Field(
        default=[],
        json_schema_extra={"uniqueItems": True},
        description="network: the instances are in a VPC. keys: everything at rest is encrypted with "
        "a key of yours. What is then missing is one error that names it all.",
    )
