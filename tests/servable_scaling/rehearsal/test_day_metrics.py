"""The metrics of a rehearsed day, as alarms see them, and what callers of each minute got."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from servable_scaling.rehearsal.scenario import PlacedDeployment
from tests.servable_scaling.minutes import START, target
from tests.servable_scaling.rehearsal.test_day import MODEL, TRACKING, alarm_on, day

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
