"""AWS's Price List: hosting prices, as `servable cost --refresh` reads them and writes them into a file."""

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
import click
import tomlkit
from botocore.exceptions import BotoCoreError, ClientError

from infra.catalog.instances import instances
from infra.parameters.loading import ValidFile
from model_packaging.beside import write_beside

# The API is in three regions, with the prices of all.
# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html (2026-11-22)
API_REGION = "us-east-1"
SOURCE = "AWS Price List API, GetProducts AmazonSageMaker, component Hosting"


class PriceListError(Exception):
    """AWS answered with something else than one price. `str()` is a whole sentence."""


def hosting_prices(pricing: Any, names: Iterable[str], region: str) -> dict[str, float]:
    """Return US dollars per hour by instance type; a type that AWS lists without a price is missing.

    `pricing`: the boto3 client. Needs pricing:GetProducts. Raises `PriceListError`, and boto3's
    errors. An asynchronous endpoint's instances are taken to cost as much as a real-time one's.
    """
    found: dict[str, float] = {}
    for name in names:
        prices = {
            row["usd_per_hour"]
            for row in rows_of(_products(pricing, region, "instanceName", name), as_of="")
            if (row["instance"], row["region"]) == (name, region)
        }
        key = f'prices.instance_usd_per_hour."{name}"'
        found.update((name, usd) for usd in _single(prices, f"{name}: AWS", "hosting", region, key))
    return found


def data_prices(pricing: Any, region: str) -> set[float]:
    """Return the price in US dollars of 1 GB into or out of an endpoint; empty if AWS lists none.

    Raises as `hosting_prices` does. Usage types and operation: those that infracost asks for,
    https://github.com/infracost/infracost/pull/3502 (2026-05-08).
    """
    prices = {
        usd
        for product in _products(pricing, region, "operation", "Invoke-Endpoint")
        if product["product"]["attributes"]
        .get("usagetype", "")
        .endswith(("Hst:Data-Bytes-In", "Hst:Data-Bytes-Out"))
        for usd in _prices(product, "gb")
    }
    return _single(prices, "data in and out: AWS", "data", region, "prices.usd_per_gb_processed")


def _products(pricing: Any, region: str, field: str, value: str) -> list[dict[str, Any]]:
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonSageMaker",
        Filters=[
            {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region},
            {"Type": "TERM_MATCH", "Field": field, "Value": value},
        ],
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def _single(prices: set[float], who: str, what: str, region: str, key: str) -> set[float]:
    """Return the prices, at most one of them."""
    if len(prices) > 1:
        listed = ", ".join(f"{usd:g}" for usd in sorted(prices))
        raise PriceListError(
            f"{who} lists several {what} prices in {region} ({listed}); state yours as {key}"
        )
    return prices


def rows_of(products: Iterable[dict[str, Any]], *, as_of: str) -> list[dict[str, Any]]:
    """One row of prices.json for each on-demand hosting price in US dollars of a type that we know."""
    return [
        {
            "instance": name,
            "usd_per_hour": usd,
            "region": product["product"]["attributes"]["regionCode"],
            "as_of": as_of,
            "source": SOURCE,
        }
        for product in products
        if (name := _hosted(product["product"]["attributes"])) in instances()
        for usd in _prices(product, "h")
    ]


def _hosted(attributes: dict[str, str]) -> str:
    """The instance type of a hosting product; "" of another one (training, notebooks, processing).

    The same type is listed once for each use; its name ends with the use in older lists.
    """
    name = attributes.get("instanceName") or attributes.get("instanceType", "")
    uses = (attributes.get("component"), attributes.get("platoinstancetype"))
    usage = attributes.get("usagetype", "")
    hosted = "Hosting" in uses or "Host:ml." in usage  # USE1-Host:ml.g5.xlarge
    return name.removesuffix("-Hosting") if hosted or name.endswith("-Hosting") else ""


def _prices(product: dict[str, Any], unit: str) -> Iterator[float]:
    """Yield the prices by a unit that begins so."""
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            # 0 is a placeholder or the free tier's.
            if usd > 0 and dimension["unit"].lower().startswith(unit):
                yield usd


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
