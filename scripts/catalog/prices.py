"""prices.json: what an instance costs an hour, from the Price List API where there are credentials.

Without them the rows stay as they are: each has its own source and date, and none is from memory.
"""

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.catalog.instances import instances

PRICES = Path(__file__).parents[2] / "infra" / "catalog" / "prices.json"
SOURCE = "AWS Price List API, GetProducts AmazonSageMaker, component Hosting"


def prices() -> dict[str, Any]:
    """The rows at hand, and over them what the API says of the same type and region."""
    table: dict[str, Any] = json.loads(PRICES.read_text(encoding="utf-8"))
    try:
        pages = boto3.client("pricing", region_name="us-east-1").get_paginator("get_products")
        products = [
            json.loads(product)
            for page in pages.paginate(
                ServiceCode="AmazonSageMaker",
                Filters=[{"Type": "TERM_MATCH", "Field": "component", "Value": "Hosting"}],
            )
            for product in page["PriceList"]
        ]
    except (BotoCoreError, ClientError) as failure:
        print(f"prices: the rows stay as they are: {failure}")
        return table
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return table | {"prices": merged(table["prices"], rows_of(products, as_of=today))}


def rows_of(products: Iterable[dict[str, Any]], *, as_of: str) -> list[dict[str, Any]]:
    """One row for each on-demand hosting price in US dollars of a type that we know."""
    rows = []
    for product in products:
        attributes = product["product"]["attributes"]
        name = attributes.get("instanceName") or attributes.get("instanceType", "")
        name = name.removesuffix("-Hosting")
        if name not in instances():
            continue
        for term in product["terms"].get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                usd = float(dimension["pricePerUnit"].get("USD", 0))
                if usd > 0 and dimension["unit"].lower().startswith("h"):
                    rows.append(
                        {
                            "instance": name,
                            "usd_per_hour": usd,
                            "region": attributes["regionCode"],
                            "as_of": as_of,
                            "source": SOURCE,
                        }
                    )
    return rows


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Both, sorted; of the same type and region the new one."""
    by_place = {(row["instance"], row["region"]): row for row in [*old, *new]}
    return [by_place[place] for place in sorted(by_place)]
