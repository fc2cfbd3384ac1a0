"""Stages of an endpoint's update, by its deployment configuration.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.sagemaker.endpoint_update import (
    Stage,
    list_rollback_alarms,
    plan_stages,
    read_timeout_seconds,
)
from tests.servable_local.aws.endpoint_case import ALL_AT_ONCE, CANARY, blue_green


def stage(active: int, seconds: int = 60) -> Stage:
    return Stage(active, 4, seconds, "WaitIntervalInSeconds")


LAST = Stage(4, 4, 120, "TerminationWaitInSeconds")


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        (ALL_AT_ONCE, [LAST]),
        (CANARY, [stage(1), LAST]),
        (CANARY | {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 26}}, [stage(2), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 3}}, [stage(3), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 9}}, [stage(4), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 0}}, [stage(1), LAST]),
        (
            {
                "Type": "LINEAR",
                "LinearStepSize": {"Type": "INSTANCE_COUNT", "Value": 2},
                "WaitIntervalInSeconds": 60,
            },
            [stage(2), LAST],
        ),
        (
            {"Type": "LINEAR", "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 10}},
            [stage(1, 0), stage(2, 0), stage(3, 0), LAST],
        ),
    ],
)
def test_stages_of_a_blue_green_update(routing: dict[str, Any], expected: list[Stage]) -> None:
    assert plan_stages(blue_green(routing), 4) == expected


@pytest.mark.parametrize(("batch", "active"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3, 4])])
def test_stages_of_a_rolling_update(batch: int, active: list[int]) -> None:
    size = {"Type": "INSTANCE_COUNT", "Value": batch}
    policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
    assert plan_stages({"RollingUpdatePolicy": policy}, 4) == [stage(count) for count in active]


def test_a_stage_is_watched_for_its_wait() -> None:
    assert plan_stages(None, 4) == [Stage(4, 4, 0)]
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": ALL_AT_ONCE}}
    assert plan_stages(policy, 4) == [Stage(4, 4, 0)]
    assert (stage(1).share, stage(1).message) == (
        0.25,
        "Baking for 60 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity of "
        "1 instance(s).",
    )


def guarded(kind: str, **sizes: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 600, **sizes}
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 120}
    return {"BlueGreenUpdatePolicy": policy}


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def _plan(config: dict[str, Any] | None, instances: int) -> list[tuple[float, int]]:
    return [(stage.share, stage.bake_seconds) for stage in plan_stages(config, instances)]


def test_without_a_canary_everything_moves_at_once() -> None:
    assert _plan(None, 2) == [(1.0, 0)]
    assert _plan(guarded("ALL_AT_ONCE"), 2) == [(1.0, 120)]


def test_a_canary_bakes_and_then_the_rest_bakes() -> None:
    assert _plan(guarded("CANARY", CanarySize=percent(10)), 10) == [(0.1, 600), (1.0, 120)]
    assert _plan(guarded("CANARY", CanarySize=percent(10)), 2)[0] == (0.5, 600)
    assert _plan(guarded("CANARY", CanarySize=percent(30)), 4)[0] == (0.5, 600)
    found = _plan(guarded("CANARY", CanarySize=percent(50)), 1)
    assert found == [(1.0, 600), (1.0, 120)]
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    assert _plan(guarded("CANARY", CanarySize=size), 4)[0] == (0.25, 600)


def test_steps_and_batches_bake_one_after_the_other() -> None:
    found = _plan(guarded("LINEAR", LinearStepSize=percent(25)), 4)
    assert found == [(0.25, 600), (0.5, 600), (0.75, 600), (1.0, 120)]
    policy = {"MaximumBatchSize": percent(50), "WaitIntervalInSeconds": 60}
    assert _plan({"RollingUpdatePolicy": policy}, 4) == [(0.5, 60), (1.0, 60)]


@given(st.sampled_from(["CANARY", "LINEAR"]), st.integers(1, 50), st.integers(1, 100))
def test_traffic_only_grows_and_ends_with_all_of_it(kind: str, share: int, count: int) -> None:
    key = "CanarySize" if kind == "CANARY" else "LinearStepSize"
    found = [stage.share for stage in plan_stages(guarded(kind, **{key: percent(share)}), count)]
    assert found == sorted(found)
    assert found[-1] == 1.0


def test_the_way_back_is_read_where_it_is_said() -> None:
    cases: list[dict[str, Any] | None] = [None, {}, {"AutoRollbackConfiguration": {}}]
    for config in cases:
        assert list_rollback_alarms(config) == []

    config = guarded("ALL_AT_ONCE")
    config["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] = 600
    assert read_timeout_seconds(config) == 600
