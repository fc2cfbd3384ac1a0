"""What an instance costs an hour, and serverless by use, as far as a source states it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from infra.catalog.table import table


@dataclass(frozen=True)
class Price:
    """One row of prices.json."""

    instance: str
    usd_per_hour: float
    region: str
    """As the source states it; 'us (region not stated)' where it does not."""
    as_of: str
    source: str


@dataclass(frozen=True)
class ServerlessPrice:
    """One row of prices.json's serverless; provisioned concurrency has prices of its own."""

    usd_per_gib_second: float
    """Of a container's memory, while it answers."""
    usd_per_gb_processed: float
    """Of requests and answers."""
    region: str
    as_of: str
    source: str


Row = TypeVar("Row", Price, ServerlessPrice)


def price(instance: str, region: str) -> Price | None:
    """The region's own row, else the newest of any region: look at `region`. None: unknown."""
    return _of_region(
        [Price(**row) for row in table("prices")["prices"] if row["instance"] == instance], region
    )


def serverless_price(region: str) -> ServerlessPrice | None:
    """As `price`."""
    return _of_region([ServerlessPrice(**row) for row in table("prices")["serverless"]], region)


def _of_region(rows: Sequence[Row], region: str) -> Row | None:
    own = [row for row in rows if row.region == region]
    return max(own or rows, key=lambda row: row.as_of, default=None)
