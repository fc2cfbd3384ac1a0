"""`servable cost` beside three published bills, and what stays when nothing runs beside the templates."""

import datetime
import json

import pytest

from infra.catalog.prices import find_standing_price
from infra.parameters.environment import Prices
from servable.cost.command import _find_outdated_price_date
from servable.cost.cost import compute_cost
from servable.cost.standing import (
    StandingCost,
    StandingItem,
    build_volume_item,
    compute_standing_cost,
)
from tests.presets import environments, templates
from tests.servable.test_cost import environment

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
    for name in HOSTING:
        hours, usd, each = HOSTING[name]
        stated = {"as_of": "2023-12", "instance_usd_per_hour": {name: each}}
        told = environment(1, instance_type=name, region="eu-west-1", prices=stated)
        hour = compute_cost("prod", told).compute_usd_per_hour("min_instances") or 0
        assert hour * hours == pytest.approx(usd, abs=0.01)

        price = Prices().find_instance_price(name, "eu-west-1")
        assert price is not None
        assert price.usd_per_hour == pytest.approx(HOSTING[name][2], rel=0.2)

    gb_months, usd = ENDPOINT_VOLUMES
    price = find_standing_price("volume gb", "eu-west-1")
    assert price is not None
    assert price.usd_per_month * gb_months == pytest.approx(usd, abs=0.005)
    assert usd < 0.05 * HOSTING_USD
    cases: list[tuple[str, tuple[float, float]]] = [
        ("key", KEYS),
        ("custom metric", CUSTOM_METRICS),
        ("alarm metric", ALARMS),
    ]
    for item, billed in cases:
        price = find_standing_price(item, "us-east-1")
        assert price is not None
        assert price.usd_per_month * billed[0] == pytest.approx(billed[1], rel=0.01)


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
    loaded = environments()[name]
    resources = [each for made in templates(name).values() for each in made["Resources"].values()]
    kinds = [each["Type"] for each in resources]
    alarms = [each["Properties"] for each in resources if each["Type"] == "AWS::CloudWatch::Alarm"]
    several = [
        [each["MetricStat"]["Period"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        for alarm in alarms
    ]
    periods = [
        period
        for alarm, metrics in zip(alarms, several, strict=True)
        for period in metrics or [alarm["Period"]]
    ]
    high = sum(period < 60 for period in periods)
    tracked = 2 * sum(  # which Application Auto Scaling makes
        each["Type"] == "AWS::ApplicationAutoScaling::ScalingPolicy"
        and each["Properties"]["PolicyType"] == "TargetTrackingScaling"
        for each in resources
    )
    counts = {item.name: item.count for item in compute_standing_cost(loaded.environment).items}
    assert counts["key"] == kinds.count("AWS::KMS::Key")
    assert counts["dashboard"] == kinds.count("AWS::CloudWatch::Dashboard")
    assert counts["composite alarm"] == kinds.count("AWS::CloudWatch::CompositeAlarm")
    # The log groups of several components count into the same metrics.
    custom = {
        json.dumps(each["Properties"]["MetricTransformations"])
        for each in resources
        if each["Type"] == "AWS::Logs::MetricFilter"
    }
    assert counts["custom metric"] == len(custom)
    assert counts["alarm metric"] == len(periods) - high + tracked
    assert counts.get("high-resolution alarm metric", 0) == high


def test_what_stands_is_in_the_sum_and_no_price_is_of_another_currency_or_old() -> None:
    assert StandingItem("key", 2, 1.5, "us-east-1, 2026-11").usd_per_month == 3

    found = compute_cost("prod", environment(2))
    month, in_all = (
        sum_("min_instances") or 0
        for sum_ in (found.compute_usd_per_month, found.compute_total_usd_per_month)
    )
    assert in_all == pytest.approx(month + 2 * 30 * 0.154 + (found.standing.usd_per_month or 0))
    assert 5 < (found.standing.usd_per_month or 0) < 9
    (variant,) = environment(instance_type="ml.g5.xlarge").variants.values()
    assert build_volume_item(variant, "us-east-1") is None

    key = f"arn:aws:kms:us-west-2:111111111111:key/{'1' * 8}-1111-1111-1111-{'1' * 12}"
    items = compute_standing_cost(environment(alarms={"topic_kms_key": key})).items
    assert "key" not in [item.name for item in items]

    found = compute_cost("prod", environment(region="cn-northwest-1"))
    hour = found.compute_usd_per_hour("min_instances")
    assert (hour, found.data.usd_per_gb, found.standing) == (None, None, StandingCost(items=()))
    for years, old in [(2, True), (1, False), (0, False)]:
        today = datetime.datetime.now(datetime.UTC)
        as_of = f"{today.year - years}-{today:%m}"
        stated = {"as_of": as_of, "instance_usd_per_hour": {"ml.c5.xlarge": 0.2}}
        found = compute_cost("prod", environment(prices=stated))
        assert _find_outdated_price_date(found) == (as_of if old else None)
