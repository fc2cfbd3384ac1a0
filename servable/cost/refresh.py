"""`servable cost ENV --refresh`: AWS's prices of its instance types and of data, into its file."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import click
import tomlkit
from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.loading import ValidFile
from model_packaging.beside import write_beside
from servable.cost.price_list import API_REGION, PriceListError, data_prices, hosting_prices


def refreshed(loaded: ValidFile, file: Path, pricing: Any = None) -> Iterator[str]:
    """Write [prices] into `file` and yield one line for each instance type, and one for data.

    `pricing`: the boto3 client; None: of the shell's credentials. Raises click.ClickException if AWS
    does not answer; then nothing is written.
    """
    environment = loaded.environment
    variants = environment.variants.values()
    kinds = {name for variant in variants for name in variant.instance_types}
    # A run is priced as an endpoint's instance: docs/batch.md.
    names = sorted(kinds | {batch.instance_type for batch in environment.batch.values()})
    try:
        client = pricing or boto3.client("pricing", region_name=API_REGION)
        usd_per_hour = hosting_prices(client, names, environment.region)
        usd_per_gb = next(iter(data_prices(client, environment.region)), None)
    except PriceListError as wrong:
        raise click.ClickException(str(wrong)) from None
    except (BotoCoreError, ClientError) as wrong:
        raise click.ClickException(
            f"{loaded.file}: prices: AWS's Price List cannot be read: {wrong}; it needs credentials "
            "with pricing:GetProducts, or state the prices yourself as prices.instance_usd_per_hour"
        ) from None
    if usd_per_hour or usd_per_gb:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        write(file, usd_per_hour, usd_per_gb, today)
    for name in names:
        usd = usd_per_hour.get(name)
        price = "AWS lists no hosting price" if usd is None else f"${usd:g}/h, written"
        yield f"{name} in {environment.region}: {price}"
    price = "AWS lists no price" if usd_per_gb is None else f"${usd_per_gb:g} per GB, written"
    yield f"data in and out in {environment.region}: {price}"


def write(file: Path, usd_per_hour: dict[str, float], usd_per_gb: float | None, as_of: str) -> None:
    """Write the prices into [prices] of the file; other keys, comments and order are kept."""
    document: Any = tomlkit.parse(file.read_text(encoding="utf-8"))
    if "prices" not in document:
        document["prices"] = tomlkit.table()
    document["prices"]["as_of"] = as_of
    if usd_per_gb is not None:
        document["prices"]["usd_per_gb_processed"] = usd_per_gb
    table = document["prices"].setdefault("instance_usd_per_hour", tomlkit.inline_table())
    table.update(usd_per_hour)
    write_beside(file, tomlkit.dumps(document).encode())
