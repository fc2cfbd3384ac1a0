"""What an instance costs an hour, as far as a source states it."""

from dataclasses import dataclass

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


def price(instance: str, region: str) -> Price | None:
    """The region's own row, else the newest of any region: look at `region`. None: unknown."""
    rows = [Price(**row) for row in table("prices")["prices"] if row["instance"] == instance]
    own = [row for row in rows if row.region == region]
    return max(own or rows, key=lambda row: row.as_of, default=None)
