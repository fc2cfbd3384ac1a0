"""`servable cost --refresh`: what AWS's Price List says, into the environment's file."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
import botocore.loaders
import click
import pytest
from botocore.stub import Stubber

from infra.parameters.loading import load
from servable.cost.price_list import build_price_rows, fetch_hosting_prices, refresh_prices
from tests.batches import build_batch_example
from tests.conftest import VALID, valid

NAME, REGION = "ml.c5.xlarge", "eu-west-1"
(EXAMPLE,) = botocore.loaders.Loader().load_service_model("pricing", "examples-1")["examples"][
    "GetProducts"
]
CREDENTIALS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}


def product(usd: str, unit: str = "Hrs", **attributes: str) -> str:
    """A product in the API's form, as botocore's documented example of GetProducts has it."""
    row = json.loads(EXAMPLE["output"]["PriceList"][0])
    row["product"]["attributes"] = {"instanceName": NAME, "regionCode": REGION, **attributes}
    (term,) = row["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    dimension.update({"unit": unit, "pricePerUnit": {"USD": usd}})
    return json.dumps(row)


HOSTING = product("0.2310000000", usagetype="EU-Host:ml.c5.xlarge", platoinstancetype="Hosting")
TRAINING = product("9.9", usagetype="EU-Train:ml.c5.xlarge", platoinstancetype="Training")


INVOKING = {"operation": "Invoke-Endpoint", "instanceName": ""}
DATA = [
    product("0.0160000000", "GB", usagetype=f"EU-Hst:Data-Bytes-{way}", **INVOKING)
    for way in ("In", "Out")
]


def client(*products: str, data: Sequence[str] = ()) -> Any:
    """A client that answers GetProducts for `NAME` in `REGION`, then for data there, and nothing else."""
    pricing = boto3.client("pricing", region_name="us-east-1", **CREDENTIALS)
    stub = Stubber(pricing)
    answers = ({"instanceName": NAME}, products), ({"operation": "Invoke-Endpoint"}, data)
    for more, listed in answers:
        filters = {"regionCode": REGION, **more}
        stub.add_response(
            "get_products",
            {"FormatVersion": "aws_v1", "PriceList": list(listed)},
            {
                "ServiceCode": "AmazonSageMaker",
                "Filters": [
                    {"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in filters.items()
                ],
            },
        )
    stub.activate()
    return pricing


def test_one_hosting_price_is_read_and_nothing_of_other_uses() -> None:
    assert fetch_hosting_prices(client(TRAINING, HOSTING), [NAME], REGION) == {NAME: 0.231}
    assert fetch_hosting_prices(client(TRAINING), [NAME], REGION) == {}
    other = product("0.3", component="Hosting")
    with pytest.raises(click.ClickException, match="several hosting prices"):
        fetch_hosting_prices(client(HOSTING, other), [NAME], REGION)
    assert build_price_rows(map(json.loads, EXAMPLE["output"]["PriceList"]), as_of="2017-09") == []


def test_refresh_writes_the_prices_of_hosting_and_data_and_keeps_the_comments(file: Path) -> None:
    other = product("9.9", "GB", usagetype="EU-Processing:Data-Bytes-Out", **INVOKING)
    for _ in range(2):
        prices = refreshed(file, client(HOSTING, data=[other]))
        assert prices["instance_usd_per_hour"] == {NAME: 0.231}
        assert "usd_per_gb_processed" not in prices
    assert file.read_text().startswith("# kept")
    assert refreshed(file, client(HOSTING, data=DATA))["usd_per_gb_processed"] == 0.016
    # The instance type of a batch gets its price.
    file.write_text(f"{build_batch_example(instance_type=NAME)}\n{VALID.partition('[variants')[0]}")
    assert refreshed(file, client(HOSTING))["instance_usd_per_hour"] == {NAME: 0.231}


def test_what_aws_lists_twice_or_denies_leaves_the_file_as_it_is(file: Path) -> None:
    other = product("0.02", "GB", usagetype="EU-Hst:Data-Bytes-Out", **INVOKING)
    before = file.read_bytes()
    with pytest.raises(click.ClickException, match=r"prices\.usd_per_gb_processed"):
        refreshed(file, client(HOSTING, data=[*DATA, other]))
    denied = boto3.client("pricing", region_name="us-east-1", **CREDENTIALS)
    stub = Stubber(denied)
    stub.add_client_error("get_products", "AccessDeniedException")
    stub.activate()
    with pytest.raises(click.ClickException, match="pricing:GetProducts"):
        refreshed(file, denied)
    with pytest.raises(KeyError, match="prices"):
        refreshed(file, client(TRAINING))
    assert file.read_bytes() == before


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "environments" / "prod.toml"
    path.write_text(f"# kept\n{VALID}")
    return path


def refreshed(file: Path, pricing: Any) -> Any:
    """Prices of the file after `--refresh` of such a client."""
    (loaded,) = load(file.parents[1], file.parent)
    list(refresh_prices(valid(loaded), file, pricing))
    return tomllib.loads(file.read_text())["prices"]
