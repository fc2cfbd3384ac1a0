"""`servable cost ENV --refresh`: AWS's hosting prices of its instance types, into its file."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import click
import tomlkit
from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.loading import Loaded
from model_packaging.beside import beside
from servable.cost.price_list import API_REGION, PriceListError, hosting_prices


def refreshed(loaded: Loaded, file: Path, pricing: Any = None) -> Iterator[str]:
    """Write [prices] into `file` and yield one line for each instance type.

    `pricing`: the boto3 client; None: of the shell's credentials. Raises click.ClickException if AWS
    does not answer; then nothing is written.
    """
    environment = loaded.environment
    assert environment is not None  # the caller has loaded it
    variants = environment.variants.values()
    names = sorted({name for variant in variants for name in variant.instance_types})
    try:
        client = pricing or boto3.client("pricing", region_name=API_REGION)
        usd_per_hour = hosting_prices(client, names, environment.region)
    except PriceListError as wrong:
        raise click.ClickException(str(wrong)) from None
    except (BotoCoreError, ClientError) as wrong:
        raise click.ClickException(
            f"{loaded.file}: prices: AWS's Price List cannot be read: {wrong}; it needs credentials "
            "with pricing:GetProducts, or state the prices yourself as prices.instance_usd_per_hour"
        ) from None
    if usd_per_hour:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        write(file, usd_per_hour, today)
    for name in names:
        usd = usd_per_hour.get(name)
        price = "AWS lists no hosting price" if usd is None else f"${usd:g}/h, written"
        yield f"{name} in {environment.region}: {price}"


def write(file: Path, usd_per_hour: dict[str, float], as_of: str) -> None:
    """Write the prices into [prices] of the file; other keys, comments and order are kept."""
    document: Any = tomlkit.parse(file.read_text(encoding="utf-8"))
    if "prices" not in document:
        document["prices"] = tomlkit.table()
    document["prices"]["as_of"] = as_of
    table = document["prices"].setdefault("instance_usd_per_hour", tomlkit.inline_table())
    for name, usd in usd_per_hour.items():
        table[name] = usd
    with beside(file) as to:
        to.write(tomlkit.dumps(document).encode())
