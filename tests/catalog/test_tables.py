"""Tables have sources and dates, and equal what they come from; prices, limits, offered types."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.catalog import limits, prices
from infra.catalog.instances import find_regions, list_instance_types
from infra.catalog.limits import load_table
from scripts import refresh_catalog
from scripts.refresh_catalog import merge_rows
from servable.cost.price_list import build_price_rows
from tests.checkouts import ROOT

GENERATED: dict[str, Callable[[], dict[str, Any]]] = {
    name: refresh_catalog.TABLES[name]
    for name in ("availability", "handler_permissions", "images", "instances", "limits")
}


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_generated_table_is_what_its_source_says(name: str) -> None:
    ours = {key: value for key, value in load_table(name).items() if key not in ("source", "date")}
    theirs = json.loads(json.dumps(GENERATED[name]()))
    assert ours == {key: value for key, value in theirs.items() if key != "source"}


def test_a_type_is_offered_where_it_has_a_hosting_price_and_a_limit_has_both_ends() -> None:
    for region, instance, yes in [
        ("eu-west-1", "ml.g5.xlarge", True),
        ("eu-west-3", "ml.g5.xlarge", False),
        ("us-east-1", "ml.p2.xlarge", False),
    ]:
        assert (region in find_regions(instance)) is yes
        assert (instance in list_instance_types(region)) is yes
    for shape, least, most in [
        ("ProductionVariantVolumeSizeInGB", 1, 512),
        ("WaitIntervalInSeconds", 0, 3600),
        ("ProductionVariantList", 1, 10),
    ]:
        assert (limits.find_minimum(shape), limits.find_maximum(shape)) == (least, most)


def test_a_price_has_a_source_a_date_and_one_region() -> None:
    rows = [row for name in ("prices", "serverless", "data") for row in load_table("prices")[name]]
    assert [row for row in rows if not (row["source"] and row["as_of"])] == []
    places = [(row["instance"], row["region"]) for row in load_table("prices")["prices"]]
    assert len(set(places)) == len(places)
    assert prices.find_price("ml.r7i.xlarge", "eu-west-1") is None

    found = prices.find_price("ml.c5.9xlarge", "eu-west-1")
    assert found is not None
    assert (found.usd_per_hour, found.region) == (1.836, "us-west-2")


PRICE = {"unit": "Hrs", "pricePerUnit": {"USD": "0.2310"}}
PRODUCT = {
    "product": {
        "attributes": {
            "component": "Hosting", "instanceName": "ml.c5.xlarge", "regionCode": "eu-west-1",
        }
    },
    "terms": {"OnDemand": {"a": {"priceDimensions": {"b": PRICE}}}},
}  # fmt: skip


def test_a_product_of_the_price_list_becomes_a_row_that_replaces_the_old_one() -> None:
    (row,) = build_price_rows([PRODUCT], as_of="2026-11-21")
    facts = row["instance"], row["usd_per_hour"], row["region"]
    assert facts == ("ml.c5.xlarge", 0.231, "eu-west-1")
    (new,) = build_price_rows([PRODUCT], as_of="2026-11-21")
    assert merge_rows([{**new, "usd_per_hour": 9.0}], [new]) == [new]


TABLES = sorted((ROOT / "infra" / "catalog").glob("*.json"))
DATE = re.compile(r"20\d\d-\d\d(-\d\d)?|date not stated")


def sources(part: Any, date: object, key: str = "table") -> Iterator[tuple[str, object, object]]:
    """Yield (key, source, date) of the table and of each row with a source."""
    if isinstance(part, dict):
        date = part.get("date", part.get("as_of", date))
        if "source" in part or key == "table":
            yield key, part.get("source"), date
        for name, value in part.items():
            yield from sources(value, date, name)
    elif isinstance(part, list):
        for value in part:
            yield from sources(value, date, key)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.name)
def test_a_table_and_its_rows_have_a_source_and_a_date(file: Any) -> None:
    found = [*sources(json.loads(file.read_text(encoding="utf-8")), None)]
    assert found
    assert [each for each in found if not each[1] or not DATE.fullmatch(str(each[2]))] == []


def test_a_row_without_a_date_is_found() -> None:
    rows = {"a": {"source": "p", "as_of": "2021-08"}, "b": {"source": "q"}}
    assert [*sources({"source": "each row", "rows": rows}, None)] == [
        ("table", "each row", None),
        ("a", "p", "2021-08"),
        ("b", "q", None),
    ]
