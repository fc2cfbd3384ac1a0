"""Prices of instances, serverless inference, data, and standing resources, with sources."""

from dataclasses import dataclass
from typing import TypeVar

from infra.catalog.limits import load_table


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
    """The monthly price of a resource that is billed regardless of traffic, from prices.json."""

    item: str
    usd_per_month: float
    region: str
    as_of: str
    source: str


Row = TypeVar("Row", Price, ServerlessPrice, DataPrice, StandingPrice)


def find_price(instance: str, region: str) -> Price | None:
    """Return the Region's price, else the newest of any (see its `region`), or None."""
    return _find("prices", Price, region, instance=instance)


def find_serverless_price(region: str) -> ServerlessPrice | None:
    """Return the Region's serverless price, or the newest of any Region, or None if unknown."""
    return _find("serverless", ServerlessPrice, region)


def find_data_price(region: str) -> DataPrice | None:
    """Return the Region's price of data in and out, or the newest of any Region, or None."""
    return _find("data", DataPrice, region)


def find_standing_price(item: str, region: str) -> StandingPrice | None:
    """Return the Region's price of a key, dashboard, or alarm, else the newest, or None."""
    return _find("standing", StandingPrice, region, item=item)


def _find(table: str, kind: type[Row], region: str, **key: str) -> Row | None:
    rows = [kind(**row) for row in load_table("prices")[table] if key.items() <= row.items()]
    own = [row for row in rows if row.region == region]
    # The regions in China are billed in CNY, at prices of their own: no price of another region tells them.
    # https://www.amazonaws.cn/en/pricing/ (2026-11-24)
    others = [] if region.startswith("cn-") else rows
    return max(own or others, key=lambda row: row.as_of, default=None)
