"""The time that CloudWatch and deployments run on: real, faster, or moved by hand.

Latencies are always measured in real time; only minutes are shortened. So a model that
takes 200 ms takes 200 ms on a clock whose minute lasts 2 s.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

SECONDS_PER_MINUTE = 60.0
# The finest period an alarm can have, so the pace at which everything is looked at.
TICK_SECONDS = 10
OnTick = Callable[[datetime], None]


def utc_now() -> datetime:
    # Naive, as moto's serializers want it.
    return datetime.now(UTC).replace(tzinfo=None)


def floor(moment: datetime, seconds: int) -> datetime:
    """The last multiple of `seconds` since the epoch that is not after `moment`."""
    epoch = datetime(1970, 1, 1)
    return epoch + timedelta(seconds=(moment - epoch) // timedelta(seconds=seconds) * seconds)


class ScaledClock:
    """A minute lasts `seconds_per_minute`; 60 is the real time."""

    def __init__(self, seconds_per_minute: float = SECONDS_PER_MINUTE) -> None:
        self.seconds_per_minute = seconds_per_minute
        self._speed = SECONDS_PER_MINUTE / seconds_per_minute
        self._began = utc_now()
        self._zero = time.monotonic()
        self._stop = threading.Event()

    def now(self) -> datetime:
        return self._began + timedelta(seconds=(time.monotonic() - self._zero) * self._speed)

    def measured(self) -> float:
        """Seconds for differences: what a latency is made of."""
        return time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Lets real time pass."""
        time.sleep(seconds)

    def start(self, on_tick: OnTick) -> None:
        """Calls `on_tick` at every tick from now on, in a thread of its own; none is left out."""

        def run() -> None:
            due = floor(self.now(), TICK_SECONDS) + timedelta(seconds=TICK_SECONDS)
            while not self._stop.wait((due - self.now()).total_seconds() / self._speed):
                on_tick(due)
                due += timedelta(seconds=TICK_SECONDS)

        threading.Thread(target=run, name="clock", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()


class ManualClock:
    """Stands still until `advance`; what is due meanwhile happens inside that call."""

    seconds_per_minute = None

    def __init__(self, start: datetime = datetime(2026, 1, 1)) -> None:
        self._now = start
        self._spent_seconds = 0.0
        self._on_tick: OnTick = lambda moment: None
        self._advancing = threading.Lock()

    def now(self) -> datetime:
        return self._now

    def measured(self) -> float:
        """Seconds of pauses alone, so that a busy computer makes no model slow."""
        return self._spent_seconds

    def pause(self, seconds: float) -> None:
        """Count these seconds as spent without waiting: a slow answer at once."""
        self._spent_seconds += seconds

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> None:
        with self._advancing:
            until = self._now + timedelta(minutes=minutes, seconds=seconds)
            due = floor(self._now, TICK_SECONDS) + timedelta(seconds=TICK_SECONDS)
            while due <= until:
                self._now = due
                self._on_tick(due)
                due += timedelta(seconds=TICK_SECONDS)
            self._now = until

    def start(self, on_tick: OnTick) -> None:
        self._on_tick = on_tick

    def stop(self) -> None:
        self._on_tick = lambda moment: None


Clock = ScaledClock | ManualClock
