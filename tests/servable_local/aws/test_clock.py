"""The time that alarms and deployments run on."""

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise

from servable_local.aws.clock import ManualClock, ScaledClock


def test_a_manual_clock_is_moved_by_hand() -> None:
    clock = ManualClock()
    assert clock.now() == clock.now()

    clock, ticks = ManualClock(datetime(2026, 1, 1)), list[datetime]()
    clock.start(ticks.append)
    clock.advance(seconds=35)
    assert [tick.second for tick in ticks] == [10, 20, 30]

    clock, seen = ManualClock(), list[bool]()
    clock.start(lambda due: seen.append(due == clock.now()))
    clock.advance(minutes=1)
    assert seen == [True] * 6

    clock = ManualClock()
    before = clock.measured()
    clock.pause(100)
    assert clock.measured() - before == 100


def test_a_scaled_clock_is_faster_and_its_latency_is_real() -> None:
    clock = ScaledClock(seconds_per_minute=0.6)
    before = clock.now()
    time.sleep(0.05)
    assert clock.now() - before >= timedelta(seconds=5)

    clock = ScaledClock(seconds_per_minute=0.1)
    before, real = clock.measured(), time.monotonic()
    clock.pause(0.01)
    assert 0.01 <= clock.measured() - before <= time.monotonic() - real + 0.001


def test_a_scaled_clock_leaves_no_tick_out() -> None:
    clock, ticks, enough = ScaledClock(seconds_per_minute=0.1), list[datetime](), threading.Event()

    def slow(due: datetime) -> None:
        time.sleep(0.03)  # longer than a tick lasts
        ticks.append(due)
        if len(ticks) == 5:
            enough.set()

    clock.start(slow)
    enough.wait(10)
    clock.stop()
    gaps = {(after - before).total_seconds() for before, after in pairwise(ticks)}
    assert gaps == {10}
