"""Read AWS's hosting prices and write them into a file, for `servable cost --refresh`."""

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
import click
import tomlkit
from botocore.exceptions import BotoCoreError, ClientError

from infra.catalog.instances import load_instances
from infra.parameters.loading import ValidFile
from model_packaging.beside import write_atomically

# The API is in three regions, with the prices of all.
# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html (2026-11-22)
API_REGION = "us-east-1"
SOURCE = "AWS Price List API, GetProducts AmazonSageMaker, component Hosting"
_DATA_USAGES = ("Hst:Data-Bytes-In", "Hst:Data-Bytes-Out")


def fetch_hosting_prices(pricing: Any, names: Iterable[str], region: str) -> dict[str, float]:
    """Return US dollars per hour by instance type, without types that AWS lists no price for.

    `pricing`: the boto3 client. Needs pricing:GetProducts. Raises ClickException for
    several prices, and boto3's errors. An asynchronous endpoint's instances are assumed to cost as
    much as a real-time endpoint's.
    """
    found: dict[str, float] = {}
    for name in names:
        rows = build_price_rows(_list_products(pricing, region, "instanceName", name), as_of="")
        here = (row for row in rows if (row["instance"], row["region"]) == (name, region))
        usd, key = {row["usd_per_hour"] for row in here}, f'instance_usd_per_hour."{name}"'
        price = _find_single_price(usd, f"{name}: AWS lists several hosting", region, key)
        found |= {} if price is None else {name: price}
    return found


def fetch_data_price(pricing: Any, region: str) -> float | None:
    """Return the price in US dollars of 1 GB into or out of an endpoint; None if AWS lists none.

    Raises the errors that `fetch_hosting_prices` raises. Usage types and operation are those that
    infracost requests, https://github.com/infracost/infracost/pull/3502 (2026-05-08).
    """
    prices = {
        usd
        for product in _list_products(pricing, region, "operation", "Invoke-Endpoint")
        if product["product"]["attributes"].get("usagetype", "").endswith(_DATA_USAGES)
        for usd in _iterate_prices(product, "gb")
    }
    problem = "data in and out: AWS lists several data"
    return _find_single_price(prices, problem, region, "usd_per_gb_processed")


def _list_products(pricing: Any, region: str, field: str, value: str) -> list[dict[str, Any]]:
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode="AmazonSageMaker",
        Filters=[
            {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region},
            {"Type": "TERM_MATCH", "Field": field, "Value": value},
        ],
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def _find_single_price(prices: set[float], problem: str, region: str, key: str) -> float | None:
    """Return the only price, or None if there is none. Raises ClickException for several."""
    if len(prices) > 1:
        listed = ", ".join(f"{usd:g}" for usd in sorted(prices))
        where = f"prices in {region} ({listed})"
        raise click.ClickException(f"{problem} {where}; set your price as prices.{key}")
    return next(iter(prices), None)


def build_price_rows(products: Iterable[dict[str, Any]], *, as_of: str) -> list[dict[str, Any]]:
    """Return a row of prices.json for each on-demand price in US dollars of a known hosted type."""
    return [
        {
            "instance": name,
            "usd_per_hour": usd,
            "region": product["product"]["attributes"]["regionCode"],
            "as_of": as_of,
            "source": SOURCE,
        }
        for product in products
        if (name := _find_hosted_type(product["product"]["attributes"])) in load_instances()
        for usd in _iterate_prices(product, "h")
    ]


def _find_hosted_type(attributes: dict[str, str]) -> str:
    """Return the instance type of a hosting product, or "" for other products.

    Other products are training, notebooks, and processing. The same type is listed once for each
    use; in older lists, its name ends with the use.
    """
    name = attributes.get("instanceName") or attributes.get("instanceType", "")
    uses = (attributes.get("component"), attributes.get("platoinstancetype"))
    usage = attributes.get("usagetype", "")
    hosted = "Hosting" in uses or "Host:ml." in usage  # USE1-Host:ml.g5.xlarge
    return name.removesuffix("-Hosting") if hosted or name.endswith("-Hosting") else ""


def _iterate_prices(product: dict[str, Any], unit: str) -> Iterator[float]:
    """Yield the prices whose unit starts with `unit`."""
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            # 0 is a placeholder or the free tier's.
            if usd > 0 and dimension["unit"].lower().startswith(unit):
                yield usd


def refresh_prices(loaded: ValidFile, file: Path, pricing: Any = None) -> Iterator[str]:
    """Write [prices] into `file`, and yield one line for each instance type and one for data.

    `pricing`: the boto3 client; None: one with the shell's credentials. Raises
    click.ClickException if AWS returns an error; then nothing is written.
    """
    environment = loaded.environment
    variants = environment.variants.values()
    kinds = {name for variant in variants for name in variant.instance_types}
    # A run is priced like an endpoint's instance: docs/batch.md.
    names = sorted(kinds | {batch.instance_type for batch in environment.batch.values()})
    try:
        client = pricing or boto3.client("pricing", region_name=API_REGION)
        usd_per_hour = fetch_hosting_prices(client, names, environment.region)
        usd_per_gb = fetch_data_price(client, environment.region)
    except (BotoCoreError, ClientError) as wrong:
        raise click.ClickException(
            f"{loaded.file}: prices: cannot read AWS's Price List: {wrong}; it needs credentials "
            "with pricing:GetProducts, or set the prices in prices.instance_usd_per_hour"
        ) from None
    if usd_per_hour or usd_per_gb:
        # Other keys, comments, and the order are kept.
        document: Any = tomlkit.parse(file.read_text(encoding="utf-8"))
        prices = document.setdefault("prices", tomlkit.table())
        prices["as_of"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        if usd_per_gb is not None:
            prices["usd_per_gb_processed"] = usd_per_gb
        prices.setdefault("instance_usd_per_hour", tomlkit.inline_table()).update(usd_per_hour)
        write_atomically(file, tomlkit.dumps(document).encode())
    for name in names:
        usd = usd_per_hour.get(name)
        price = "AWS lists no hosting price" if usd is None else f"${usd:g}/h, written"
        yield f"{name} in {environment.region}: {price}"
    price = "AWS lists no price" if usd_per_gb is None else f"${usd_per_gb:g} per GB, written"
    yield f"data in and out in {environment.region}: {price}"
