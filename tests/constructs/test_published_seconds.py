"""Alarms and graphs look at metrics as often as [metrics] has them published."""

from collections.abc import Mapping

import pytest

from infra.constructs.monitoring.signals import Signal, list_variant_signals
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from infra.parameters.monitoring import Alarms, Metrics, PublishIntervals
from infra.policy.hosting import ASYNCHRONOUS, REAL_TIME, SERVERLESS, EndpointKind

ALARMS = Alarms(p99_latency_ms=100, no_traffic_minutes=5)


def published(kind: EndpointKind = REAL_TIME, *, enhanced: bool, seconds: int) -> PublishIntervals:
    table = {"enhanced_metrics": enhanced, "publish_seconds": seconds}
    return Metrics.model_validate(table).find_intervals(kind)


def signals(
    enhanced: bool, seconds: int, alarms: Alarms = ALARMS, pools: tuple[str, ...] = ()
) -> Mapping[str, Signal]:
    variant = WatchedVariant(name="primary", instance_type="ml.g5.xlarge", pools=pools)
    endpoint = WatchedEndpoint(
        name="ranker",
        region="eu-west-1",
        variants=(variant,),
        published=published(enhanced=enhanced, seconds=seconds),
    )
    return {one.name: one for one in list_variant_signals(endpoint, variant, alarms)}


@pytest.mark.parametrize(
    ("name", "enhanced", "seconds", "period"),
    [
        ("primary-p99-latency", True, 10, 10),
        ("primary-p99-latency", True, 30, 30),
        ("primary-p99-latency", True, 300, 300),
        ("primary-p99-latency", False, 10, 60),
        ("primary-cpu", False, 10, 10),
        ("primary-cpu", False, 300, 300),
        ("primary-no-traffic", True, 10, 60),
        ("primary-no-traffic", True, 300, 300),
    ],
)
def test_an_alarm_has_the_period_in_which_its_metric_is_published(
    name: str, enhanced: bool, seconds: int, period: int
) -> None:
    assert signals(enhanced, seconds)[name].period_seconds == period


def test_a_window_of_minutes_is_as_many_whole_periods() -> None:
    for seconds, window, expected in [
        (10, 3, (18, 10)),
        (30, 3, (6, 4)),
        (30, 1, (2, 2)),
        (60, 3, (3, 3)),
        (120, 3, (2, 2)),
        (300, 3, (1, 1)),
    ]:
        alarms = Alarms(p99_latency_ms=100, window_minutes=window)
        signal = signals(True, seconds, alarms)["primary-p99-latency"]
        assert (signal.periods, signal.breaching_periods) == expected
    for seconds, minutes in [(10, 3), (60, 3), (120, 4), (240, 4)]:
        assert published(enhanced=True, seconds=seconds).round_up_window(3) == minutes


def test_the_earliest_alarm_and_its_window_are_said() -> None:
    for seconds, words in [
        (10, "100 s after the first 10 s that show it begin. "),
        (60, "3 min after the first minute that shows it begins. "),
        (300, "5 min after the first 300 s that show it begin. "),
    ]:
        signal = signals(True, seconds)["primary-p99-latency"]
        assert signal.earliest_alarm_note == f"Fires at the earliest {words}"
    for seconds, words in [
        (10, "in 10 of 18 periods of 10 s"),
        (60, "for 3 minutes in a row"),
        (120, "for 4 minutes in a row"),
    ]:
        assert signals(True, seconds)["primary-p99-latency"].window == words


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            REAL_TIME,
            PublishIntervals(requests_seconds=10, utilization_seconds=10, by_instance=True),
        ),
        (ASYNCHRONOUS, PublishIntervals(utilization_seconds=10)),
        (SERVERLESS, PublishIntervals()),
    ],
    ids=str,
)
def test_enhanced_metrics_are_those_of_real_time_endpoints(
    kind: EndpointKind, expected: PublishIntervals
) -> None:
    assert published(kind, enhanced=True, seconds=10) == expected
