"""The stages of an update, from its DeploymentConfig."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.sagemaker.endpoint_update import longest_seconds, rollback_alarms, stages


def blue_green(kind: str, **sizes: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 600, **sizes}
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 120}
    return {"BlueGreenUpdatePolicy": policy}


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def _plan(config: dict[str, Any] | None, instances: int) -> list[tuple[float, int]]:
    return [(stage.share, stage.bake_seconds) for stage in stages(config, instances)]


def test_without_a_canary_everything_moves_at_once() -> None:
    assert _plan(None, 2) == [(1.0, 0)]
    assert _plan(blue_green("ALL_AT_ONCE"), 2) == [(1.0, 120)]


def test_a_canary_bakes_and_then_the_rest_bakes() -> None:
    assert _plan(blue_green("CANARY", CanarySize=percent(10)), 10) == [(0.1, 600), (1.0, 120)]
    assert _plan(blue_green("CANARY", CanarySize=percent(10)), 2)[0] == (0.5, 600)
    assert _plan(blue_green("CANARY", CanarySize=percent(30)), 4)[0] == (0.5, 600)
    found = _plan(blue_green("CANARY", CanarySize=percent(50)), 1)
    assert found == [(1.0, 600), (1.0, 120)]
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    assert _plan(blue_green("CANARY", CanarySize=size), 4)[0] == (0.25, 600)


def test_steps_and_batches_bake_one_after_the_other() -> None:
    found = _plan(blue_green("LINEAR", LinearStepSize=percent(25)), 4)
    assert found == [(0.25, 600), (0.5, 600), (0.75, 600), (1.0, 120)]
    policy = {"MaximumBatchSize": percent(50), "WaitIntervalInSeconds": 60}
    assert _plan({"RollingUpdatePolicy": policy}, 4) == [(0.5, 60), (1.0, 60)]


@given(st.sampled_from(["CANARY", "LINEAR"]), st.integers(1, 50), st.integers(1, 100))
def test_traffic_only_grows_and_ends_with_all_of_it(kind: str, share: int, count: int) -> None:
    key = "CanarySize" if kind == "CANARY" else "LinearStepSize"
    found = [stage.share for stage in stages(blue_green(kind, **{key: percent(share)}), count)]
    assert found == sorted(found)
    assert found[-1] == 1.0


def test_the_way_back_is_read_where_it_is_said() -> None:
    cases: list[dict[str, Any] | None] = [None, {}, {"AutoRollbackConfiguration": {}}]
    for config in cases:
        assert rollback_alarms(config) == []

    config = blue_green("ALL_AT_ONCE")
    config["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] = 600
    assert longest_seconds(config) == 600
