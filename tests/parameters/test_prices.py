"""Prices: the file's come before the catalog's, with the region and date that they have."""

import pytest

from infra.catalog import prices as catalog
from infra.parameters.environment import STATED, Prices

OWN = Prices(
    as_of="2026-11",
    instance_usd_per_hour={"ml.c5.xlarge": 0.1},
    serverless_usd_per_gib_second=3e-5,
    usd_per_gb_processed=0.02,
    provisioned_usd_per_gib_second=2e-5,
)


def test_a_price_that_the_file_states_is_of_its_region_and_date() -> None:
    found = OWN.find_instance_price("ml.c5.xlarge", "eu-west-1")
    assert found == catalog.Price("ml.c5.xlarge", 0.1, "eu-west-1", "2026-11", STATED)
    shown = OWN.find_data_price("eu-west-1")
    assert shown == catalog.DataPrice(0.02, "eu-west-1", "2026-11", STATED)
    serverless = OWN.find_serverless_price("us-east-1")
    assert serverless is not None
    assert (serverless.usd_per_gib_second, serverless.usd_per_warm_gib_second) == (3e-5, 2e-5)
    told = (serverless.region, serverless.as_of, serverless.source)
    assert told == ("us-east-1", "2026-11", STATED)

    row = catalog.find_serverless_price("us-east-1")
    warm = Prices(provisioned_usd_per_gib_second=2e-5).find_serverless_price("us-east-1")
    second = Prices(serverless_usd_per_gib_second=3e-5).find_serverless_price("us-east-1")
    assert row is not None
    assert warm is not None
    assert second is not None
    given = (warm.usd_per_gib_second, warm.usd_per_warm_gib_second, warm.source)
    assert given == (row.usd_per_gib_second, 2e-5, row.source)
    assert (second.usd_per_gib_second, second.usd_per_warm_gib_second, second.source) == (
        3e-5, row.usd_per_warm_gib_second, STATED,
    )  # fmt: skip


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_price_that_the_file_does_not_state_is_the_catalogs(region: str) -> None:
    assert OWN.find_instance_price("ml.m5.xlarge", region) == catalog.find_price(
        "ml.m5.xlarge", region
    )
    none = Prices()
    assert none.find_instance_price("ml.c5.xlarge", region) == catalog.find_price(
        "ml.c5.xlarge", region
    )
    assert none.find_data_price(region) == catalog.find_data_price(region)
    assert none.find_serverless_price(region) == catalog.find_serverless_price(region)
