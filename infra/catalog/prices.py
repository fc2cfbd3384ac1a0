"""Prices of instances, serverless inference, data, and what stands, as far as a source states them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from infra.catalog.limits import table


@dataclass(frozen=True)
class Price:
    """The price of an instance type, from prices.json."""

    instance: str
    usd_per_hour: float
    region: str
    """The region that the source states, or 'us (region not stated)'."""
    as_of: str
    source: str


@dataclass(frozen=True)
class ServerlessPrice:
    """A price of serverless inference, from prices.json."""

    usd_per_gib_second: float
    """Price of a container's memory while it answers."""
    usd_per_warm_gib_second: float
    """Price of memory that provisioned concurrency keeps warm. What answers there is cheaper than
    usd_per_gib_second says."""
    region: str
    as_of: str
    source: str


@dataclass(frozen=True)
class DataPrice:
    """The price of data into an endpoint, which is also that of data out of it, from prices.json."""

    usd_per_gb: float
    region: str
    as_of: str
    source: str


@dataclass(frozen=True)
class StandingPrice:
    """The price by the month of something that is paid whatever runs, from prices.json."""

    item: str
    usd_per_month: float
    region: str
    as_of: str
    source: str


Row = TypeVar("Row", Price, ServerlessPrice, DataPrice, StandingPrice)
# The regions in China are billed in CNY, at prices of their own: no price of another region tells them.
# https://www.amazonaws.cn/en/pricing/ (2026-11-24)
_CHINA = "cn-"


def price(instance: str, region: str) -> Price | None:
    """The region's price, else the newest of any region (see its `region`); None if unknown."""
    return _of_region(
        [Price(**row) for row in table("prices")["prices"] if row["instance"] == instance], region
    )


def serverless_price(region: str) -> ServerlessPrice | None:
    """The region's serverless price, else the newest of any region; None if unknown."""
    return _of_region([ServerlessPrice(**row) for row in table("prices")["serverless"]], region)


def data_price(region: str) -> DataPrice | None:
    """The region's price of data in and out, else the newest of any region; None if unknown."""
    return _of_region([DataPrice(**row) for row in table("prices")["data"]], region)


def standing_price(item: str, region: str) -> StandingPrice | None:
    """The region's price of a key, a dashboard, an alarm; else the newest of any region; None if unknown."""
    rows = [StandingPrice(**row) for row in table("prices")["standing"] if row["item"] == item]
    return _of_region(rows, region)


def _of_region(rows: Sequence[Row], region: str) -> Row | None:
    own = [row for row in rows if row.region == region]
    if region.startswith(_CHINA):
        rows = own
    return max(own or rows, key=lambda row: row.as_of, default=None)
