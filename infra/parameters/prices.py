"""[prices]: prices that the account pays, which go before those of the catalog."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from infra.catalog import prices as catalog
from infra.parameters.table import Table

InstanceName = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$")]
Usd = Annotated[float, Field(gt=0, le=10_000)]
STATED = "the environment file"


class Prices(Table):
    """Prices without tax in US dollars, for the region of the environment. Nothing that is deployed
    depends on them, except the dashboard's graph of the cost."""

    as_of: str = Field(default="date not stated", pattern=r"^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$")
    """Date of these prices, for example 2026-11-22. `servable cost ENV --refresh` writes it."""
    instance_usd_per_hour: dict[InstanceName, Usd] = Field(default={})
    """Price of one instance per hour, by instance type. `servable cost ENV --refresh` writes those of
    the file's variants from AWS's Price List. Default: infra/catalog/prices.json, which has few
    regions."""
    serverless_usd_per_gib_second: Usd | None = None
    """Serverless: price of 1 GiB of memory for one second of answering. Default: the catalog's."""
    usd_per_gb_processed: Usd | None = None
    """Price of 1 GB of requests or answers. `servable cost ENV --refresh` writes it. Default: the
    catalog's, which has few regions."""
    provisioned_usd_per_gib_second: Usd | None = None
    """Serverless: price of 1 GiB of memory that provisioned_concurrency keeps warm for one second.
    Default: the catalog's."""

    def instance(self, name: str, region: str) -> catalog.Price | None:
        """Price of an instance type: the file's, else the catalog's; None if neither states one."""
        stated = self.instance_usd_per_hour.get(name)
        if stated is None:
            return catalog.price(name, region)
        return catalog.Price(name, stated, region, self.as_of, STATED)

    def serverless(self, region: str) -> catalog.ServerlessPrice | None:
        """Prices of serverless inference: the file's, else the catalog's; None if neither states one."""
        price = catalog.serverless_price(region)
        second, warm = self.serverless_usd_per_gib_second, self.provisioned_usd_per_gib_second
        if price is None:
            return None
        # The row's region and date are those of the price that every serverless variant pays.
        if second is not None:
            price = replace(price, region=region, as_of=self.as_of, source=STATED)
        return replace(
            price,
            usd_per_gib_second=price.usd_per_gib_second if second is None else second,
            usd_per_warm_gib_second=price.usd_per_warm_gib_second if warm is None else warm,
        )

    def data(self, region: str) -> catalog.DataPrice | None:
        """Price of data in and out: the file's, else the catalog's; None if neither states one."""
        if self.usd_per_gb_processed is None:
            return catalog.data_price(region)
        return catalog.DataPrice(self.usd_per_gb_processed, region, self.as_of, STATED)
