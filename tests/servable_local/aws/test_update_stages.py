"""Stages of an endpoint's update, by its deployment configuration.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html
"""

from typing import Any

import pytest

from servable_local.aws.sagemaker.endpoint_update import Stage, stages
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
    assert stages(blue_green(routing), 4) == expected


@pytest.mark.parametrize(("batch", "active"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3, 4])])
def test_stages_of_a_rolling_update(batch: int, active: list[int]) -> None:
    size = {"Type": "INSTANCE_COUNT", "Value": batch}
    policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
    assert stages({"RollingUpdatePolicy": policy}, 4) == [stage(count) for count in active]


def test_a_stage_is_watched_for_its_wait() -> None:
    assert stages(None, 4) == [Stage(4, 4, 0)]
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": ALL_AT_ONCE}}
    assert stages(policy, 4) == [Stage(4, 4, 0)]
    assert (stage(1).share, stage(1).message) == (
        0.25,
        "Baking for 60 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity of "
        "1 instance(s).",
    )
