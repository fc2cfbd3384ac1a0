"""Prices beside three published bills, what stands beside the templates, and `servable cost --refresh`."""

import datetime
import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import botocore.loaders
import click
import pytest

from infra.catalog.prices import find_standing_price
from infra.parameters.environment import Prices
from infra.parameters.loading import load
from servable.cost.command import _find_outdated_price_date
from servable.cost.cost import compute_cost
from servable.cost.price_list import build_price_rows, fetch_hosting_prices, refresh_prices
from servable.cost.standing import StandingItem, build_volume_item, list_standing_items
from tests.batches import build_batch_example
from tests.conftest import VALID, valid
from tests.presets import environments, templates
from tests.servable.test_cost import environment
from tests.servable.verify.answering import AnsweringAccount, Found

# A bill of December 2023, EU (Ireland): https://github.com/aws-samples/sagemaker-ssh-helper/blob/
# b6bf9ba39119784eb6ce6683ae9a6a2ed8ef4cd3/Sample_Costs.md (read 2026-11-24).
# Hosting type -> (hours, USD of the bill, USD per hour of the bill).
HOSTING = {
    "ml.m5.xlarge": (8.208, 2.11, 0.257),
    "ml.g4dn.4xlarge": (74.998, 125.85, 1.678),
    "ml.g4dn.12xlarge": (31.543, 172.00, 5.453),
    "ml.g5.12xlarge": (22.409, 177.26, 7.91),
}
HOSTING_USD = 478.29  # with 1.299 hours of ml.g4dn.xlarge at 0.821
ENDPOINT_VOLUMES = (0.222, 0.03)  # GB-months, USD
# A bill of May 2025, Asia Pacific (Singapore): https://github.com/rahmat-ullah/DocParser/blob/
# d890afd0132a77830a6244c67d434f21a08058f8/backend/sample_full_document.md (read 2026-11-24).
KEYS, CUSTOM_METRICS = (0.995, 0.99), (13.233, 3.97)
# A bill of 2026-01-16 to 2026-02-16: https://github.com/diy-accounting-uk/submit.diyaccounting.co.uk/blob/
# d5d056fcdea5363924eba207b97cdd92785a17e9/AWS_COSTS.md (read 2026-11-24). Ten alarms of an account are free.
ALARMS = (206 - 10, 19.62)


def test_hours_of_hosting_and_what_stands_cost_what_the_bills_say() -> None:
    for name, (hours, usd, each) in HOSTING.items():
        stated = {"as_of": "2023-12", "instance_usd_per_hour": {name: each}}
        told = environment(1, instance_type=name, region="eu-west-1", prices=stated)
        hour = compute_cost("prod", told).compute_usd_per_hour("min_instances") or 0
        assert hour * hours == pytest.approx(usd, abs=0.01)

        price = Prices().find_instance_price(name, "eu-west-1")
        assert price is not None
        assert price.usd_per_hour == pytest.approx(each, rel=0.2)

    assert ENDPOINT_VOLUMES[1] < 0.05 * HOSTING_USD
    for item, region, (count, usd), within in (
        ("volume gb", "eu-west-1", ENDPOINT_VOLUMES, 0.005),
        ("key", "us-east-1", KEYS, 0.01 * KEYS[1]),
        ("custom metric", "us-east-1", CUSTOM_METRICS, 0.01 * CUSTOM_METRICS[1]),
        ("alarm metric", "us-east-1", ALARMS, 0.01 * ALARMS[1]),
    ):
        standing = find_standing_price(item, region)
        assert standing is not None
        assert standing.usd_per_month * count == pytest.approx(usd, abs=within)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "environments/prod",
        *(f"scaling/{name}" for name in ("concurrency", "hold", "steps")),
        "updates/canary",
        *(f"variants/{name}" for name in ("ab-test", "asynchronous", "batch", "components")),
        *(f"variants/{name}" for name in ("instance-pools", "serverless-warm", "sleeping")),
    ],
)
def test_what_stands_is_what_the_templates_have(name: str) -> None:
    found = defaultdict[str, list[Any]](list)
    for made in templates(name).values():
        for each in made["Resources"].values():
            found[each["Type"].removeprefix("AWS::")].append(each.get("Properties"))
    periods = []
    for alarm in found["CloudWatch::Alarm"]:
        metrics = [each["MetricStat"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        periods += [metric["Period"] for metric in metrics or [alarm]]
    high = sum(period < 60 for period in periods)
    policies = [each["PolicyType"] for each in found["ApplicationAutoScaling::ScalingPolicy"]]
    tracked = 2 * policies.count("TargetTrackingScaling")  # which Application Auto Scaling makes
    # The log groups of several components count into the same metrics.
    filters = found["Logs::MetricFilter"]
    custom = {json.dumps(each["MetricTransformations"]) for each in filters}
    items = list_standing_items(environments()[name].environment)
    counts = {item.name: item.count for item in items}
    assert counts["key"] == len(found["KMS::Key"])
    assert counts["dashboard"] == len(found["CloudWatch::Dashboard"])
    assert counts["composite alarm"] == len(found["CloudWatch::CompositeAlarm"])
    assert counts["custom metric"] == len(custom)
    assert counts["alarm metric"] == len(periods) - high + tracked
    assert counts.get("high-resolution alarm metric", 0) == high


def test_what_stands_is_in_the_sum_and_no_price_is_of_another_currency_or_old() -> None:
    assert StandingItem("key", 2, 1.5, "us-east-1, 2026-11").usd_per_month == 3

    found = compute_cost("prod", environment(2))
    month = found.compute_usd_per_month("min_instances") or 0
    in_all = found.compute_total_usd_per_month("min_instances") or 0
    assert in_all == pytest.approx(month + 2 * 30 * 0.154 + (found.standing_usd_per_month or 0))
    assert 5 < (found.standing_usd_per_month or 0) < 9
    (variant,) = environment(instance_type="ml.g5.xlarge").variants.values()
    assert build_volume_item(variant, "us-east-1") is None

    key = f"arn:aws:kms:us-west-2:111111111111:key/{'1' * 8}-1111-1111-1111-{'1' * 12}"
    items = list_standing_items(environment(alarms={"topic_kms_key": key}))
    assert "key" not in [item.name for item in items]

    found = compute_cost("prod", environment(region="cn-northwest-1"))
    hour = found.compute_usd_per_hour("min_instances")
    assert (hour, found.data.usd_per_gb, found.standing) == (None, None, ())
    for years, old in [(2, True), (1, False), (0, False)]:
        today = datetime.datetime.now(datetime.UTC)
        as_of = f"{today.year - years}-{today:%m}"
        stated = {"as_of": as_of, "instance_usd_per_hour": {"ml.c5.xlarge": 0.2}}
        found = compute_cost("prod", environment(prices=stated))
        assert _find_outdated_price_date(found) == (as_of if old else None)


# --- what AWS's Price List says, into the environment's file

NAME, REGION = "ml.c5.xlarge", "eu-west-1"
(EXAMPLE,) = botocore.loaders.Loader().load_service_model("pricing", "examples-1")["examples"][
    "GetProducts"
]


def product(usd: str, unit: str = "Hrs", **attributes: str) -> str:
    """A product in the API's form, as botocore's documented example of GetProducts has it."""
    row = json.loads(EXAMPLE["output"]["PriceList"][0])
    row["product"]["attributes"] = {"instanceName": NAME, "regionCode": REGION, **attributes}
    (term,) = row["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    dimension.update({"unit": unit, "pricePerUnit": {"USD": usd}})
    return json.dumps(row)


HOSTED = product("0.2310000000", usagetype="EU-Host:ml.c5.xlarge", platoinstancetype="Hosting")
TRAINING = product("9.9", usagetype="EU-Train:ml.c5.xlarge", platoinstancetype="Training")
INVOKING = {"operation": "Invoke-Endpoint", "instanceName": ""}
DATA = [
    product("0.0160000000", "GB", usagetype=f"EU-Hst:Data-Bytes-{way}", **INVOKING)
    for way in ("In", "Out")
]


def client(*products: str, data: Sequence[str] = ()) -> Any:
    """A client that answers GetProducts for `NAME` in `REGION` and for data there, and nothing else."""

    answers = {"instanceName": (NAME, products), "operation": ("Invoke-Endpoint", data)}

    def answer(asked: Mapping[str, Any]) -> Found:
        value, listed = answers[asked["Filters"][1]["Field"]]
        fields = {"regionCode": REGION, asked["Filters"][1]["Field"]: value}.items()
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": each} for name, each in fields]
        assert asked == {"ServiceCode": "AmazonSageMaker", "Filters": filters}
        return {"PriceList": list(listed)}

    return AnsweringAccount(GetProducts=answer).client("pricing")


def test_one_hosting_price_is_read_and_nothing_of_other_uses() -> None:
    assert fetch_hosting_prices(client(TRAINING, HOSTED), [NAME], REGION) == {NAME: 0.231}
    assert fetch_hosting_prices(client(TRAINING), [NAME], REGION) == {}
    other = product("0.3", component="Hosting")
    with pytest.raises(click.ClickException, match="several hosting prices"):
        fetch_hosting_prices(client(HOSTED, other), [NAME], REGION)
    assert build_price_rows(map(json.loads, EXAMPLE["output"]["PriceList"]), as_of="2017-09") == []


def test_refresh_writes_the_prices_of_hosting_and_data_and_keeps_the_comments(file: Path) -> None:
    other = product("9.9", "GB", usagetype="EU-Processing:Data-Bytes-Out", **INVOKING)
    for _ in range(2):
        prices = refreshed(file, client(HOSTED, data=[other]))
        assert prices["instance_usd_per_hour"] == {NAME: 0.231}
        assert "usd_per_gb_processed" not in prices
    assert file.read_text().startswith("# kept")
    assert refreshed(file, client(HOSTED, data=DATA))["usd_per_gb_processed"] == 0.016
    # The instance type of a batch gets its price.
    file.write_text(f"{build_batch_example(instance_type=NAME)}\n{VALID.partition('[variants')[0]}")
    assert refreshed(file, client(HOSTED))["instance_usd_per_hour"] == {NAME: 0.231}


def test_what_aws_lists_twice_or_denies_leaves_the_file_as_it_is(file: Path) -> None:
    other = product("0.02", "GB", usagetype="EU-Hst:Data-Bytes-Out", **INVOKING)
    before = file.read_bytes()
    with pytest.raises(click.ClickException, match=r"prices\.usd_per_gb_processed"):
        refreshed(file, client(HOSTED, data=[*DATA, other]))
    denied = AnsweringAccount(GetProducts="not allowed").client("pricing")
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
