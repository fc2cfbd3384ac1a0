"""A day against policies: what starts when, what callers see meanwhile, and who is woken."""

import math
from dataclasses import replace
from typing import Any

import pytest

from servable_scaling.rehearsal.day import RehearsedDay, compute_break_probability, rehearse
from servable_scaling.rehearsal.fleet import InstanceModel, Service
from servable_scaling.rehearsal.scenario import (
    EMPTY_MINUTES,
    EmptyInstances,
    PlacedDeployment,
    Scenario,
)
from tests.servable_scaling.minutes import RESOURCE, target

MODEL = InstanceModel(rate_rps=100, service=Service(0.02, 0.05), queue=2000)
TRACKING = {
    "PolicyName": "track",
    "ScalingTargetId": "t",
    "TargetTrackingScalingPolicyConfiguration": {
        "TargetValue": 3000,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
        "ScaleOutCooldown": 0,
        "ScaleInCooldown": 0,
    },
}


def alarm_on(metric: str, statistic: str, threshold: float, **more: Any) -> dict[str, Any]:
    """An alarm on one datapoint above the threshold."""
    return {
        "AlarmName": "a",
        "Namespace": "AWS/SageMaker",
        "MetricName": metric,
        ("ExtendedStatistic" if statistic.startswith("p") else "Statistic"): statistic,
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": threshold,
        "ComparisonOperator": "GreaterThanThreshold",
        **more,
    }


LATENCY = alarm_on("ModelLatency", "p99", 100_000, EvaluationPeriods=3, DatapointsToAlarm=3)


def day(requests: list[float], **more: Any) -> RehearsedDay:
    scenario = Scenario(
        requests=requests, model=MODEL, routing="least_outstanding_requests", resource=RESOURCE,
        instances=2, start_minutes=4, p99_ms=100,
    )  # fmt: skip
    return rehearse(replace(scenario, **more))


SCALED = {"targets": {"t": target(2, 20)}, "policies": {"track": TRACKING}}
# 50 requests/s for 10 minutes, then four times as many as two instances answer half busy.
SPIKE = [3000.0] * 10 + [24_000.0] * 20


def test_instances_are_paid_from_their_start_and_answer_after_it_and_later_where_metrics_are() -> (
    None
):
    assert day(SPIKE, **SCALED).minutes[13].paid == 8
    assert [one.answering for one in day(SPIKE, **SCALED).minutes][16:18] == [2, 8]
    broken = day(SPIKE, **SCALED).broken
    assert (broken[0], broken[-1]) == (10, 17)
    late = day(SPIKE, **SCALED, metric_delay_seconds=90)
    # Seen after 90 s: at the begin of the second minute after.
    assert [one.answering for one in late.minutes][18:20] == [2, 8]


def test_nobody_waits_longer_than_a_full_queue_takes() -> None:
    small = InstanceModel(rate_rps=100, service=Service(0.02, 0.02), queue=50)
    slowest = max(one.p99_ms or 0 for one in day(SPIKE, **SCALED, model=small).minutes)
    assert slowest == pytest.approx(500 + 20, rel=0.02)


def test_the_engineer_is_woken_after_the_alarms_window_and_not_on_a_quiet_day() -> None:
    assert day(SPIKE, **SCALED, alarms=[LATENCY], page='ALARM("a")').woken == [13]
    assert day([3000.0] * 60, alarms=[LATENCY], page='ALARM("a")').woken == []


def test_deployments_are_paid_while_they_bake_and_nothing_scales() -> None:
    plan = PlacedDeployment(minute=2, shares=(10.0, 100.0), bake_minutes=3)
    paid = [one.paid for one in day([3000.0] * 20, deployment=plan).minutes]
    assert paid == [2] * 2 + [4] * 10 + [2] * 8

    plan = PlacedDeployment(
        minute=2, by_count={2: (50.0, 100.0)}, bake_minutes=5, last_bake_minutes=2
    )
    found = day([3000.0] * 20, deployment=plan)
    paid = [one.paid for one in found.minutes]
    assert (paid, found.deployed_with) == ([2] * 2 + [4] * 11 + [2] * 7, 2)

    # Batches of 2 of 4: each starts for 4 minutes, bakes for 3, and then 2 old ones end.
    plan = PlacedDeployment(minute=2, bake_minutes=3, batch_percent=50)
    found = day([3000.0] * 20, instances=4, deployment=plan).minutes
    assert [one.paid for one in found] == [4] * 2 + [6] * 14 + [4] * 4

    assert [one.answering for one in found] == [4] * 6 + [6] * 3 + [4] * 4 + [6] * 3 + [4] * 4

    plan = PlacedDeployment(minute=9, shares=(100.0,), bake_minutes=15)
    assert max([one.answering for one in day(SPIKE, **SCALED, deployment=plan).minutes][:28]) == 4

    plan = PlacedDeployment(minute=9, bake_minutes=6, batch_percent=50)
    assert max([one.answering for one in day(SPIKE, **SCALED, deployment=plan).minutes][:29]) == 3


def test_two_hundred_instances_come_and_go() -> None:
    wide = {"targets": {"t": target(2, 200)}, "policies": {"track": TRACKING}}
    requests = [6000.0] * 30 + [600_000.0] * 30 + [6000.0] * 600
    answering = [one.answering for one in day(requests, **wide).minutes]
    assert (max(answering), answering[-1]) == (200, 2)


# Of 100 requests one may be slow: two or more of a mean of 1 come with 1 - 2/e.
def test_a_minute_breaks_with_its_chance_and_near_the_objective_it_is_not_sure() -> None:
    for requests, share, chance in [
        (100, 0.01, 1 - 2 / math.e),
        (50, 0.01, 1 - math.exp(-0.5)),
        (100, 0, 0),
        (6000, 0.001, 0),
        (6000, 0.1, 1),
    ]:
        assert compute_break_probability(requests, share) == pytest.approx(chance, abs=1e-6)
    sure, near = (day([6000.0], p99_ms=limit).minutes[0].breaks for limit in (100, 58))
    assert (sure < 0.01, near > 0.1) == (True, True)


def test_an_instance_without_a_copy_takes_one_until_it_ends_ten_minutes_later() -> None:
    for minute, taken in [(EMPTY_MINUTES - 1, 1), (EMPTY_MINUTES, 0)]:
        instances = EmptyInstances(EMPTY_MINUTES)
        instances.add(1, 0)
        assert instances.take(1, minute) == taken
