"""The progress of a replay: one line on a terminal, elsewhere a line every few seconds."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from servable.console.lines import REFRESH_SECONDS, duration, progress_line
from servable.replay.index import CaptureIndex
from servable.replay.run import Progress
from servable.replay.sending import ReplayPace
from servable.replay.summary import ReplaySummary, utc_text


@contextmanager
def progress_of(index: CaptureIndex, pace: ReplayPace) -> Iterator[Progress]:
    """Yield what a replay calls after each answer; a thread shows it, in gaps too."""
    tick = _Ticker(index, pace)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(REFRESH_SECONDS):
            show(tick.text)

    with progress_line() as show:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield tick.answered
        finally:
            ended.set()
            watcher.join()


class _Ticker:
    """Progress of a replay under way, with an estimate of its end."""

    def __init__(self, index: CaptureIndex, pace: ReplayPace) -> None:
        self._index, self._pace = index, pace
        self._began = self._at = time.monotonic()
        self._moment = float(index.times[0])
        self._done = self._before = self._failed = 0

    def answered(self, summary: ReplaySummary, moment: float) -> None:
        if not self._done:
            self._before = summary.answered - 1  # an earlier process has answered these
        self._done, self._failed = summary.answered, sum(summary.failures.values())
        self._moment, self._at = moment, time.monotonic()

    def text(self) -> str:
        now, total = time.monotonic(), len(self._index)
        rate = (self._done - self._before) / (now - self._began)
        left = (total - self._done) / rate if rate else 0.0
        if not self._pace.as_fast:
            left = float(self._index.times[-1]) - self._moment
            left = max(0.0, left - (now - self._at))
        return (
            f"{self._done:,} of {total:,} answered, {self._failed:,} failed; {rate:,.0f} requests/s; "
            f"about {duration(left)} left"
        )


def announced(index: CaptureIndex, pace: ReplayPace) -> str:
    """Describe what is about to be sent, and how long that takes."""
    first, last = float(index.times[0]), float(index.times[-1])
    what = f"{len(index):,} requests from {utc_text(first)} to {utc_text(last)}"
    if pace.as_fast:
        limit = (
            f"while p99 is within {pace.objective_ms:g} ms" if pace.objective_ms else "32 at once"
        )
        return f"{what}, as fast as they are answered, {limit}; Ctrl-C keeps what was answered"
    captured = f"at the captured pace: {duration(last - first)}"
    return f"{what}, {captured}; Ctrl-C keeps what was answered"
