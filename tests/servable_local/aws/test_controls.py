"""What the local AWS answers about itself: its clock, and fault injection."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from servable_local.aws import LocalAws, running
from servable_local.aws.clock import ScaledClock
from servable_local.aws.controls import Controls
from servable_local.aws.loopback import CLOCK_PATH


@pytest.fixture(scope="module")
def still() -> Iterator[LocalAws]:
    """One whose clock stands still."""
    with running(seconds_per_minute=None) as aws:
        yield aws


def test_a_clock_that_stands_still_stands_still(still: LocalAws) -> None:
    assert still.now() == still.now()


def test_a_clock_that_stands_still_is_moved_from_outside(still: LocalAws) -> None:
    before = still.now()
    assert still.advance(minutes=3) - before == timedelta(minutes=3)


def test_an_alarm_fires_when_the_clock_is_moved(still: LocalAws) -> None:
    cloudwatch = still.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="silence",
        Namespace="Own",
        MetricName="Heartbeat",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=2,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData="breaching",
    )
    still.advance(minutes=1)
    (alarm,) = cloudwatch.describe_alarms()["MetricAlarms"]
    assert alarm["StateValue"] == "ALARM"


def test_a_clock_that_goes_by_itself_cannot_be_moved() -> None:
    controls = Controls(ScaledClock(seconds_per_minute=1), lambda *whose: None)  # type: ignore[arg-type]
    assert controls.answer(CLOCK_PATH, {"seconds": 60}) == (
        "409 Conflict",
        {"error": "this clock goes by itself and cannot be moved"},
    )


def test_trouble_for_an_endpoint_that_is_not_there_is_refused(still: LocalAws) -> None:
    with pytest.raises(ValueError, match="Could not find endpoint"):
        still.inject_fault("absent", latency_ms=100)
