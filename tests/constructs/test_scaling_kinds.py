"""Scaling on other numbers, in steps, by the clock, to zero, and off."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
RANGE = "min_instances = 2\nmax_instances = 12\n"
SCALING = "[variants.primary.scaling]\n"
QUEUE = (
    VALID + "min_instances = 0\nmax_instances = 4\n" + SCALING + "max_backlog_per_instance = 10\n"
)
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"',
    "serverless = { memory_mib = 2048, max_concurrency = 9, provisioned_concurrency = 2, "
    "max_provisioned_concurrency = 8 }",
)


def scaled(lines: str) -> str:
    return VALID + RANGE + SCALING + lines


def tracking(found: Synthesised) -> dict[str, Any]:
    (one,) = [each for each in found.all(POLICY) if each["PolicyType"] == "TargetTrackingScaling"]
    tracked: dict[str, Any] = one["TargetTrackingScalingPolicyConfiguration"]
    return tracked


def steps(found: Synthesised) -> list[list[dict[str, Any]]]:
    key = "StepScalingPolicyConfiguration"
    return [one[key]["StepAdjustments"] for one in found.all(POLICY) if key in one]


def alarm(found: Synthesised, name: str) -> dict[str, Any]:
    (one,) = [each for each in found.all("AWS::CloudWatch::Alarm") if each["AlarmName"] == name]
    return one


def test_each_number_is_tracked_at_its_safe_share(synthesise: Synthesise) -> None:
    found = tracking(synthesise(scaled("max_concurrency_per_instance = 8\n")))
    metric = found["PredefinedMetricSpecification"]["PredefinedMetricType"]
    assert (metric, found["TargetValue"]) == (
        "SageMakerVariantConcurrentRequestsPerModelHighResolution",
        4,
    )
    both = "max_rps_per_instance = 10\nmax_concurrency_per_instance = 8\n"
    assert len(synthesise(scaled(both)).all(POLICY)) == 2
    found = tracking(synthesise(QUEUE + "[asynchronous]\n"))["CustomizedMetricSpecification"]
    assert (found["MetricName"], found["Dimensions"]) == (
        "ApproximateBacklogSizePerInstance",
        [{"Name": "EndpointName", "Value": "ranker"}],
    )


def test_a_queue_may_wait_without_an_instance_and_starts_with_the_first_request(
    synthesise: Synthesise,
) -> None:
    config = synthesise(QUEUE + "[asynchronous]\n").one("AWS::SageMaker::EndpointConfig")
    assert config["ProductionVariants"][0]["InitialInstanceCount"] == 1
    assert synthesise(QUEUE + "[asynchronous]\n").one(TARGET)["MinCapacity"] == 0

    found = synthesise(QUEUE + "[asynchronous]\n")
    waking = alarm(found, "ranker-primary-wake-up")
    # No data is published while instances run, and the alarm keeps its state then.
    assert waking["TreatMissingData"] == "missing"
    assert (waking["EvaluationPeriods"], waking["Period"]) == (2, 60)
    assert (waking["MetricName"], steps(found)) == (
        "HasBacklogWithoutCapacity",
        [[{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]],
    )
    text = QUEUE.replace("min_instances = 0", "min_instances = 1") + "[asynchronous]\n"
    assert steps(synthesise(text)) == []


def test_serverless_scales_its_provisioned_concurrency(synthesise: Synthesise) -> None:
    target = synthesise(SERVERLESS + SCALING + "provisioned_use_percent = 70\n").one(TARGET)
    assert (target["ScalableDimension"], target["MinCapacity"], target["MaxCapacity"]) == (
        "sagemaker:variant:DesiredProvisionedConcurrency",
        2,
        8,
    )


def test_steps_lie_beyond_their_alarms_bound_as_does_a_minute_without_requests(
    synthesise: Synthesise,
) -> None:
    rows = "steps = [{ above_rps = 150, change = 4 }, { above_rps = 80, change = 2 }]\n"
    found = synthesise(scaled(rows))
    assert (alarm(found, "ranker-primary-steps-out")["Threshold"], steps(found)) == (
        80 * 60,
        [
            [
                {
                    "MetricIntervalLowerBound": 0,
                    "MetricIntervalUpperBound": 70 * 60,
                    "ScalingAdjustment": 2,
                },
                {"MetricIntervalLowerBound": 70 * 60, "ScalingAdjustment": 4},
            ]
        ],
    )

    rows = "steps = [{ below_rps = 10, change = -1 }, { below_rps = 2, change = -3 }]\n"
    found = synthesise(scaled(rows))
    assert (alarm(found, "ranker-primary-steps-in")["Threshold"], steps(found)) == (
        10 * 60,
        [
            [
                {
                    "MetricIntervalLowerBound": -8 * 60,
                    "MetricIntervalUpperBound": 0,
                    "ScalingAdjustment": -1,
                },
                {"MetricIntervalUpperBound": -8 * 60, "ScalingAdjustment": -3},
            ]
        ],
    )

    found = synthesise(scaled("steps = [{ below_rps = 10, change = -1 }]\n"))
    metrics = alarm(found, "ranker-primary-steps-in")["Metrics"]
    assert "FILL(requests, 0)" in [metric.get("Expression") for metric in metrics]


def test_a_schedule_is_an_action_of_the_target(synthesise: Synthesise) -> None:
    row = '{ at = "cron(0 7 ? * MON-FRI *)", timezone = "Europe/Berlin", at_least = 6 }'
    (action,) = synthesise(scaled(f"schedule = [{row}]\n")).one(TARGET)["ScheduledActions"]
    assert (action["Schedule"], action["Timezone"], action["ScalableTargetAction"]) == (
        "cron(0 7 ? * MON-FRI *)",
        "Europe/Berlin",
        {"MinCapacity": 6},
    )


@pytest.mark.parametrize(
    ("lines", "out", "back"),
    [
        # 180 s of boot and a model of a moment, to the next half minute.
        ("max_rps_per_instance = 10\n", 210, 420),
        ("max_rps_per_instance = 10\nscale_out_cooldown_seconds = 600\n", 600, 1200),
        ("max_rps_per_instance = 10\nscale_in_cooldown_seconds = 900\n", 210, 900),
    ],
    ids=["left-out", "out-given", "in-given"],
)
def test_cooldowns_follow_the_time_that_a_start_takes(
    synthesise: Synthesise, lines: str, out: int, back: int
) -> None:
    found = tracking(synthesise(scaled(lines)))
    assert (found["ScaleOutCooldown"], found["ScaleInCooldown"]) == (out, back)


def test_on_hold_nothing_scales_and_an_update_keeps_the_live_number(synthesise: Synthesise) -> None:
    found = synthesise(scaled("max_rps_per_instance = 10\nhold = true\n"))
    assert (found.all(TARGET), found.all(POLICY)) == ([], [])
    found = synthesise(scaled("max_rps_per_instance = 10\nhold = true\n"))
    assert found.one("AWS::SageMaker::Endpoint")["ExcludeRetainedVariantProperties"] == [
        {"VariantPropertyType": "DesiredWeight"}
    ]
