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


def test_a_clock_that_stands_still_is_moved_from_outside(still: LocalAws) -> None:
    assert still.now() == still.now()
    before = still.now()
    assert still.advance(minutes=3) - before == timedelta(minutes=3)

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


def test_what_cannot_be_controlled_is_refused(still: LocalAws) -> None:
    controls = Controls(ScaledClock(seconds_per_minute=1), lambda *whose: None)  # type: ignore[arg-type]
    assert controls.answer(CLOCK_PATH, {"seconds": 60}) == (
        "409 Conflict",
        {"error": "this clock goes by itself and cannot be moved"},
    )
    with pytest.raises(ValueError, match="Could not find endpoint"):
        still.inject_fault("absent", latency_ms=100)
