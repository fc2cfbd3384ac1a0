"""Steady load on a deployed model, and what came of it, minute by minute: callers, events, alarms."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

OK = "answered"


@dataclass(frozen=True)
class TimedRequest:
    """`seen` is "answered", or the error as the caller reads it."""

    sent: datetime
    seen: str
    latency_ms: float


class SteadyLoad:
    """An open loop: a slow answer does not slow the next request down, up to `callers` at once."""

    def __init__(
        self,
        ask: Callable[[], None],
        now: Callable[[], datetime],
        *,
        requests_per_second: float,
        callers: int = 24,
    ) -> None:
        self.requests: list[TimedRequest] = []
        self._ask = ask
        self._now = now
        self._gap_seconds = 1 / requests_per_second
        self._next = time.monotonic()
        self._pace = threading.Lock()
        self._stop = threading.Event()
        self._callers = [
            threading.Thread(target=self._call, name="caller", daemon=True) for _ in range(callers)
        ]

    def __enter__(self) -> "SteadyLoad":
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()

    def _call(self) -> None:
        while True:
            with self._pace:
                due = self._next = max(self._next + self._gap_seconds, time.monotonic() - 1)
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            sent, began = self._now(), time.perf_counter()
            seen = self._seen()
            if not self._stop.is_set():  # what is under way at the end is nobody's finding
                latency_ms = (time.perf_counter() - began) * 1000
                self.requests.append(TimedRequest(sent, seen, latency_ms))

    def _seen(self) -> str:
        try:
            self._ask()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            original = error.response.get("OriginalStatusCode")
            return code if original is None else f"{code} {original}"
        except BotoCoreError as error:
            return type(error).__name__
        return OK


MINUTE = timedelta(minutes=1)


@dataclass
class Minute:
    """One minute of the local AWS's clock. Latencies as the callers measured them, in ms."""

    number: int
    requests: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    p50_ms: float | None = None
    p99_ms: float | None = None
    events: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    at: datetime
    said: str


def minutes(
    start: datetime, requests: Sequence[TimedRequest], events: Iterable[Event]
) -> list[Minute]:
    """From `start`, which is the beginning of minute 0, without gaps."""
    by_minute: dict[int, list[TimedRequest]] = {}
    for request in requests:
        by_minute.setdefault(_number(start, request.sent), []).append(request)
    said: dict[int, list[str]] = {}
    for event in sorted(events, key=lambda one: one.at):
        said.setdefault(_number(start, event.at), []).append(event.said)
    last = max([0, *by_minute, *said])
    return [_minute(n, by_minute.get(n, []), said.get(n, [])) for n in range(last + 1)]


def _minute(number: int, requests: Sequence[TimedRequest], said: list[str]) -> Minute:
    latencies = sorted(request.latency_ms for request in requests)
    errors = Counter(request.seen for request in requests if request.seen != OK)
    return Minute(
        number,
        len(requests),
        dict(errors),
        percentile(latencies, 50),
        percentile(latencies, 99),
        said,
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The nearest rank."""
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1] if ordered else None


def lines(found: Sequence[Minute]) -> Iterable[str]:
    """Header and a line a minute, aligned; events stand beside the minute they happened in."""
    yield f"{'minute':>6}  {'requests':>8}  {'p50 ms':>7}  {'p99 ms':>7}  {'failed':>6}  "
    for one in found:
        failed = sum(one.errors.values())
        kinds = ", ".join(f"{count} x {kind}" for kind, count in sorted(one.errors.items()))
        said = "; ".join([*one.events, *([kinds] if kinds else [])])
        yield (
            f"{one.number:>6}  {one.requests:>8}  {_ms(one.p50_ms):>7}  {_ms(one.p99_ms):>7}  "
            f"{failed or '':>6}  {said}"
        ).rstrip()


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _number(start: datetime, at: datetime) -> int:
    return max(0, (at - start) // MINUTE)
