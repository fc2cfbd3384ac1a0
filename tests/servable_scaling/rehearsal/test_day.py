"""A day against policies: what starts when, its metrics as alarms see them, and who is woken."""

import math
from dataclasses import replace
from datetime import timedelta
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
from tests.servable_scaling.minutes import RESOURCE, START, target, tracking

MODEL = InstanceModel(rate_rps=100, service=Service(0.02, 0.05), queue=2000)
INVOCATIONS = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
TRACKING = {
    **tracking(3000, PredefinedMetricSpecification=INVOCATIONS),
    "ResourceId": None,
    "ScalingTargetId": "t",
}


def alarm_on(metric: str, statistic: str, threshold: float, **more: Any) -> dict[str, Any]:
    """An alarm on one datapoint above the threshold."""
    return {
        "AlarmName": "a", "Namespace": "AWS/SageMaker", "MetricName": metric,
        ("ExtendedStatistic" if statistic.startswith("p") else "Statistic"): statistic,
        "Period": 60, "EvaluationPeriods": 1, "Threshold": threshold,
        "ComparisonOperator": "GreaterThanThreshold", **more,
    }  # fmt: skip


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

    by_count = {2: (50.0, 100.0)}
    plan = PlacedDeployment(minute=2, by_count=by_count, bake_minutes=5, last_bake_minutes=2)
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


QUIET = [3000.0] * 20
# What one request takes on average: the mean of a lognormal with that median and p99.
MEAN_SECONDS = 0.02 * math.exp((math.log(2.5) / 2.326348) ** 2 / 2)


def state(metric: str, statistic: str, threshold: float, requests: list[float], **more: Any) -> str:
    """The last state of an alarm on one datapoint above the threshold."""
    period = more.pop("period", 60)
    alarm = alarm_on(metric, statistic, threshold, Period=period, **more.pop("alarm", {}))
    changes = day(requests, alarms=[alarm], **more).alarms
    return changes[-1].state if changes else "INSUFFICIENT_DATA"


REFUSING = {"model": replace(MODEL, queue=0), "p99_ms": None}


@pytest.mark.parametrize(("metric", "statistic", "period", "value", "more"), [
    ("Invocations", "Sum", 60, 3000, {}),
    ("Invocations", "Sum", 300, 15_000, {}),
    ("Invocations", "Average", 300, 3000, {}),
    ("Invocations", "Maximum", 300, 3000, {}),
    ("InvocationsPerInstance", "Sum", 60, 1500, {}),
    ("InvocationsPerInstance", "Sum", 60, 1000, {"instances": 3}),
    ("ModelLatency", "Average", 60, 1e6 * MEAN_SECONDS, {}),
    ("ModelLatency", "p72", 60, 20_000 * 2.5 ** (0.58284 / 2.326348), {}),
    ("ConcurrentRequestsPerModel", "Average", 60, 25 * MEAN_SECONDS, {}),
])  # fmt: skip
def test_an_alarm_sees_the_metric_of_a_steady_day(
    metric: str, statistic: str, period: int, value: float, more: dict[str, Any]
) -> None:
    states = [
        state(metric, statistic, value * factor, QUIET, period=period, **more)
        for factor in (0.98, 1.02)
    ]
    assert states == ["ALARM", "OK"]


def test_a_metric_of_ten_seconds_is_a_sixth_and_without_requests_there_is_no_datapoint() -> None:
    states = [state("Invocations", "Sum", value, QUIET, period=10) for value in (499, 501)]
    assert states == ["ALARM", "OK"]
    assert state("CPUUtilization", "Average", -1, QUIET) == "INSUFFICIENT_DATA"
    for metric, statistic in [
        ("ModelLatency", "p99"),
        ("ModelLatency", "Average"),
        ("Invocation5XXErrors", "Average"),
    ]:
        assert state(metric, statistic, -1, [0.0] * 9) == "INSUFFICIENT_DATA"
    for metric in ["InvocationsPerInstance", "ModelLatency"]:
        assert state(metric, "Average", -1, QUIET, instances=0) == "INSUFFICIENT_DATA"

    few = {"EvaluateLowSampleCountPercentile": "ignore"}
    for requests, judged in [(999.0, "INSUFFICIENT_DATA"), (1001.0, "ALARM")]:
        assert state("ModelLatency", "p99", 1, [requests] * 9, alarm=few) == judged
    assert state("ModelLatency", "p99", 1, [201.0] * 21, period=300, alarm=few) == "ALARM"


def test_a_period_of_several_minutes_has_the_statistic_of_all_and_errors_their_share() -> None:
    for statistic, value in [("Sum", 9000), ("Average", 1800), ("Maximum", 3000)]:
        uneven = [1000.0, 3000.0, 1000.0, 3000.0, 1000.0] * 5
        states = [
            state("Invocations", statistic, value + more, uneven[:21], period=300)
            for more in (-1, 1)
        ]
        assert states == ["ALARM", "OK"]

    share = 6000 / 18_000  # two instances answer 12,000 a minute
    states = [
        state("Invocation5XXErrors", "Average", share * factor, [18_000.0] * 9, **REFUSING)
        for factor in (0.99, 1.01)
    ]
    assert states == ["ALARM", "OK"]


def test_the_engineer_is_woken_once_for_each_episode() -> None:
    uneven = [5000.0] * 3 + [1000.0] * 3 + [5000.0] * 3 + [1000.0] * 3
    busy = alarm_on("Invocations", "Sum", 3000)
    assert day(uneven, alarms=[busy], page="ALARM(a)").woken == [1, 7]


def test_a_slow_or_refusing_minute_is_broken_and_percentiles_are_those_of_the_service_time() -> (
    None
):
    minute = day(QUIET).minutes[5]
    assert minute.p50_ms == pytest.approx(20, rel=0.03)
    assert minute.p99_ms == pytest.approx(50, rel=0.075)
    cases: list[tuple[list[float], dict[str, Any]]] = [
        ([0.0] * 3, {}),
        (QUIET, {"latencies": False}),
        (QUIET, {"instances": 0}),
    ]
    for requests, more in cases:
        minute = day(requests, **more).minutes[1]
        assert (minute.p50_ms, minute.p99_ms) == (None, None)

    for refused_share, broken in [(0.009, []), (0.011, [0, 1, 2])]:
        assert day([12_000 / (1 - refused_share)] * 3, **REFUSING).broken == broken
    for objective, broken in [(45, [0, 1]), (51, []), (None, [])]:
        assert day(QUIET[:2], p99_ms=objective).broken == broken
    dark = day([600.0] * 3, instances=0)
    assert (dark.refused_requests, dark.broken) == (1800, [0, 1, 2])


def test_a_deployment_replaces_the_fleet_in_whole_instances_while_both_answer() -> None:
    plan = PlacedDeployment(minute=2, shares=(10.0, 100.0), bake_minutes=3)
    answering = [one.answering for one in day(QUIET, deployment=plan).minutes]
    assert answering == [2] * 6 + [4] * 6 + [2] * 8
    uses = [one.use for one in day(QUIET, deployment=plan).minutes]
    assert uses == pytest.approx([0.25] * 6 + [0.225] * 3 + [0.25] * 11)
    plan = PlacedDeployment(minute=2)
    assert [one.answering for one in day(QUIET, deployment=plan).minutes] == [2] * 20
    plan = PlacedDeployment(minute=1, bake_minutes=2, batch_percent=50)
    paid = [one.paid for one in day(QUIET, instances=3, deployment=plan).minutes]
    assert paid == [3] + [5] * 6 + [4] * 6 + [3] * 7


def test_the_hours_and_activities_of_a_day_are_told() -> None:
    assert day([0.0] * 90).instance_hours == 3
    quiet = day([0.0] * 40, instances=5, targets={"t": target(2, 20)}, policies={"p": TRACKING})
    assert (quiet.minutes[0].paid, quiet.minutes[-1].paid) == (5, 2)
    busy = day([24_000.0] * 9, targets={"t": target(2, 20)}, policies={"p": TRACKING})
    assert [one.started - START for one in busy.activities][:1] == [timedelta(minutes=3)]
