"""The clock of CloudWatch and deployments: real, faster, or advanced by hand.

Latencies are always measured in real time; only minutes are shortened. A model that takes
200 ms also takes 200 ms on a clock whose minute lasts 2 s.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

SECONDS_PER_MINUTE = 60.0
# The shortest period of an alarm, and so the interval of all evaluations.
TICK_SECONDS = 10
OnTick = Callable[[datetime], None]


def utc_now() -> datetime:
    # Naive, because moto's serializers require it.
    return datetime.now(UTC).replace(tzinfo=None)


def round_down(moment: datetime, seconds: int) -> datetime:
    """Return the last multiple of `seconds` since the epoch that isn't after `moment`."""
    epoch = datetime(1970, 1, 1)
    return epoch + timedelta(seconds=(moment - epoch) // timedelta(seconds=seconds) * seconds)


class ScaledClock:
    """A clock whose minute lasts `seconds_per_minute` seconds; 60 is real time."""

    def __init__(self, seconds_per_minute: float = SECONDS_PER_MINUTE) -> None:
        self.seconds_per_minute = seconds_per_minute
        self._speed = SECONDS_PER_MINUTE / seconds_per_minute
        self._began = utc_now()
        self._zero = time.monotonic()
        self._stop = threading.Event()

    def now(self) -> datetime:
        return self._began + timedelta(seconds=(time.monotonic() - self._zero) * self._speed)

    def measure_seconds(self) -> float:
        """Return a number of seconds for computing differences, such as latencies."""
        return time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Sleep for `seconds` of real time."""
        time.sleep(seconds)

    def call_every_tick(self, on_tick: OnTick) -> None:
        """Start a thread that calls `on_tick` at every tick from now on, without skipping any."""

        def run_ticks() -> None:
            due = round_down(self.now(), TICK_SECONDS) + timedelta(seconds=TICK_SECONDS)
            while not self._stop.wait((due - self.now()).total_seconds() / self._speed):
                on_tick(due)
                due += timedelta(seconds=TICK_SECONDS)

        threading.Thread(target=run_ticks, name="clock", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()


class ManualClock:
    """A clock that stands still until `advance`, which runs everything that becomes due."""

    seconds_per_minute = None

    def __init__(self, start: datetime = datetime(2026, 1, 1)) -> None:
        self._now = start
        self._spent_seconds = 0.0
        self._on_tick: OnTick = lambda moment: None
        self._advancing = threading.Lock()

    def now(self) -> datetime:
        return self._now

    def measure_seconds(self) -> float:
        """Return the total seconds of pauses, so that a busy computer doesn't slow down a model."""
        return self._spent_seconds

    def pause(self, seconds: float) -> None:
        """Count these seconds as spent without waiting, to simulate a slow response."""
        self._spent_seconds += seconds

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> None:
        with self._advancing:
            until = self._now + timedelta(minutes=minutes, seconds=seconds)
            due = round_down(self._now, TICK_SECONDS) + timedelta(seconds=TICK_SECONDS)
            while due <= until:
                self._now = due
                self._on_tick(due)
                due += timedelta(seconds=TICK_SECONDS)
            self._now = until

    def call_every_tick(self, on_tick: OnTick) -> None:
        self._on_tick = on_tick

    def stop(self) -> None:
        self._on_tick = lambda moment: None


Clock = ScaledClock | ManualClock
