"""What a variant runs: at creation, between which bounds, on which types, as components, asleep; prices."""

from typing import Any

import pytest

from infra.catalog import prices as catalog
from infra.parameters.endpoint import EndpointTable
from infra.parameters.environment import STATED, Environment, Prices, build_stack_name
from infra.parameters.model import Artifact, ModelTable
from infra.parameters.variant import Variant, find_variant_machine

C5 = {"model": "ranker", "instance_type": "ml.c5.xlarge"}
SCALED = {"max_rps_per_instance": 10}
SLEEPY = {"model": "ranker", "sleep_after_minutes": 5}
KEY = "arn:aws:kms:eu-west-1:111111111111:key/{}"


def variant(**keys: Any) -> Variant:
    return Variant.model_validate({**C5, **keys})


@pytest.mark.parametrize(("keys", "starts_with", "capacity", "planned"), [
    ({}, 1, (1, 1), (1, 1)),
    ({"min_instances": 0}, 1, (0, 0), (0, 0)),
    ({"min_instances": 3}, 3, (3, 3), (3, 3)),
    ({"min_instances": 3, "max_instances": 5, "scaling": SCALED}, 1, (3, 5), (3, 5)),
    ({"min_instances": 3, "max_instances": 5, "scaling": SCALED, "initial_instances": 4},
     4, (3, 5), (3, 5)),
    ({"min_instances": 3, "max_instances": 5, "scaling": {
        **SCALED, "schedule": [{"at": "rate(1 day)", "at_least": 2},
                               {"at": "rate(1 day)", "at_most": 9}]}}, 1, (3, 5), (2, 9)),
    ({"min_instances": 3, "max_instances": 5, "scaling": {
        **SCALED, "schedule": [{"at": "rate(1 day)", "at_least": 7}]}}, 1, (3, 5), (3, 7)),
    ({"min_instances": 3, "max_instances": 5, "scaling": {
        **SCALED, "hold": True, "schedule": [{"at": "rate(1 day)", "at_least": 7}]}},
     1, (3, 5), (3, 5)),
    ({"max_instances": 2, "sleep_after_minutes": 5}, 1, (0, 2), (0, 2)),
    ({"instance_type": None, "serverless": {"memory_mib": 2048, "max_concurrency": 4}},
     1, (0, 0), (0, 0)),
])  # fmt: skip
def test_a_fleet_begins_and_stays_within_its_bounds(
    keys: dict[str, Any], starts_with: int, capacity: tuple[int, int], planned: tuple[int, int]
) -> None:
    found = variant(**keys)
    shown = (found.configured_instances, found.capacity, found.planned_capacity)
    assert shown == (starts_with, capacity, planned)


def test_components_share_a_fleet_and_each_has_copies() -> None:
    shared = variant(
        model="", min_instances=0, max_instances=3,
        components={"a": {**SLEEPY, "max_copies": 4}, "b": {"model": "other", "min_copies": 2}},
    )  # fmt: skip
    a, b = shared.for_component("a"), shared.for_component("b")
    assert [each.model for each in (shared, a, b)] == ["", "ranker", "other"]
    assert [each.component is not None for each in (shared, a, b)] == [False, True, True]
    assert [each.has_copies for each in (shared, a, b, variant())] == [True, True, True, False]
    assert [each.can_sleep for each in (shared, a, b)] == [False, True, False]
    assert [each.is_scaled for each in (shared, a, b)] == [False, True, False]
    assert (shared.configured_instances, shared.instance_limit) == (1, 3)
    assert (a.capacity, b.capacity) == ((0, 4), (2, 2))
    all_sleep = variant(model="", min_instances=0, components={"a": SLEEPY, "b": SLEEPY})
    assert (all_sleep.can_sleep, all_sleep.instance_limit) == (True, 1)
    assert variant(sleep_after_minutes=5).has_copies


def test_a_pool_runs_its_own_settings_on_each_type() -> None:
    own = {"instance_type": "ml.g5.xlarge", "container": {"tfs_processes": 1}}
    pools = [{"instance_type": "ml.g6.xlarge"}, own]
    shared = {"tfs_processes": 4, "gunicorn_workers": 3}
    found = variant(instance_type=None, instance_pools=pools, container=shared)
    assert found.instance_types == ("ml.g6.xlarge", "ml.g5.xlarge")
    settings = [each.container for each in found.variants_per_type]
    assert [(each.tfs_processes, each.gunicorn_workers) for each in settings] == [(4, 3), (1, 3)]
    assert [each.instance_pools for each in found.variants_per_type] == [None, None]
    machine = find_variant_machine(found)
    assert machine is not None
    assert machine.name == "ml.g6.xlarge"
    assert find_variant_machine(variant(instance_type="ml.none.xlarge")) is None


def environment_of(**tables: Any) -> Environment:
    given = {
        "account": "111111111111",
        "region": "eu-west-1",
        "endpoint": EndpointTable(name="ranker"),
        "models": {"ranker": ModelTable(saved_model="model")},  # type: ignore[arg-type]
        "variants": {"primary": variant()},
    }
    return Environment.model_validate({**given, **tables})


def test_shares_are_of_the_weights_and_a_stack_is_named_after_the_service() -> None:
    found = environment_of(
        variants={"a": variant(weight=3), "b": variant(weight=1),
                  "copy": variant(weight=4, shadow=True)}
    )  # fmt: skip
    assert [*found.production_variants] == ["a", "b"]
    told = [found.compute_share(name) for name in ("a", "b", "copy", "none")]
    assert told == [0.75, 0.25, 1, None]
    assert environment_of(variants={"a": variant(weight=0)}).compute_share("a") is None
    assert build_stack_name("prod", environment_of(), "data") == "prod-data"
    of_service = environment_of(service="search")
    assert build_stack_name("prod", of_service, "endpoint") == "search-prod-endpoint"


def test_what_serves_scales_and_has_a_component_is_known_by_name() -> None:
    shared = variant(model="", components={"a": SLEEPY, "b": {"model": "ranker"}})
    variants = {"shared": shared, "alone": variant(scaling=SCALED), "still": variant()}
    found = environment_of(variants=variants)
    assert [*found.variants_by_table] == [
        "shared.components.a", "shared.components.b", "alone", "still",
    ]  # fmt: skip
    assert [*found.serving_variants] == ["a", "b", "alone", "still"]
    assert [*found.scaling_tables] == ["a", "alone"]
    assert found.components == {"a": "ranker-a", "b": "ranker-b"}
    assert (found.kind.has_instances, environment_of().kind.queued) == (True, False)
    assert environment_of(asynchronous={}).kind.queued
    serverless = variant(instance_type=None, serverless={"memory_mib": 2048, "max_concurrency": 4})
    assert not environment_of(variants={"primary": serverless}).kind.has_instances

    limit = environment_of().kind.request_bytes
    accepted = {"request-too-large": "a proxy of ours takes them"}
    nothing: dict[str, str] = {}
    cases = ((limit + 1, accepted), (limit, accepted), (limit + 1, nothing))
    sizes = [environment_of(traffic={"request_bytes": n}, acknowledge=why) for n, why in cases]
    assert [each.acknowledged_request_bytes for each in sizes] == [limit + 1, None, None]


def test_every_key_that_a_file_may_name_is_listed_with_what_it_names() -> None:
    assert environment_of().kms_keys == {
        "endpoint.volume_kms_key": [], "endpoint.log_kms_key": [], "alarms.topic_kms_key": [],
        "endpoint.archive_kms_keys": [],
    }  # fmt: skip
    batch = {
        "model": "pinned", "instance_type": "ml.c5.xlarge", "content_type": "text/csv",
        "input": "s3://tables/rows/", "output": "s3://tables/scores/",
    }  # fmt: skip
    kms_key = KEY.format("artifact")
    artifact = Artifact(uri="s3://models/a/m.tar.gz", sha256="a" * 64, kms_key=kms_key)
    dumps = {"uri": "s3://dumps/", "kms_key": KEY.format("dumps")}
    full = environment_of(
        endpoint=EndpointTable(
            name="ranker", volume_kms_key=KEY.format("volume"), log_kms_key=KEY.format("log"),
        ),
        models={"pinned": ModelTable(artifact=artifact)},
        variants={"primary": variant(model="pinned", core_dumps=dumps)},
        alarms={"topic_kms_key": KEY.format("topic")},
        capture={"kms_key": KEY.format("capture")},
        asynchronous={"kms_key": KEY.format("queue")},
        batch={
            "a": {**batch, "output_kms_key": KEY.format("out"), "input_kms_key": KEY.format("in")},
            "b": batch,
        },
    )  # fmt: skip
    assert full.kms_keys == {
        "endpoint.volume_kms_key": [KEY.format("volume")],
        "endpoint.log_kms_key": [KEY.format("log")],
        "alarms.topic_kms_key": [KEY.format("topic")],
        "models.pinned.artifact.kms_key": [KEY.format("artifact")],
        "variants.primary.core_dumps.kms_key": [KEY.format("dumps")],
        "capture.kms_key": [KEY.format("capture")],
        "asynchronous.kms_key": [KEY.format("queue")],
        "batch.a.output_kms_key": [KEY.format("out")],
        "batch.a.input_kms_key": [KEY.format("in")],
        "batch.b.output_kms_key": [],
    }


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
    m5, c5 = (catalog.find_price(f"ml.{kind}.xlarge", region) for kind in ("m5", "c5"))
    assert OWN.find_instance_price("ml.m5.xlarge", region) == m5
    none = Prices()
    assert none.find_instance_price("ml.c5.xlarge", region) == c5
    assert none.find_data_price(region) == catalog.find_data_price(region)
    assert none.find_serverless_price(region) == catalog.find_serverless_price(region)
