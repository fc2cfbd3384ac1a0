"""What happened to the requests of one step, in one process.

A request is recorded with two list appends; everything else is done for many at once, when the
report is made. Times are of `time.perf_counter()`.
"""

import time
from collections import Counter
from typing import Any

import numpy as np

from servable.load.generator.connection import OK, TIMEOUT
from servable.load.latencies import bin_numbers
from servable.load.precision import WINDOW_SECONDS

BLOCK_SECONDS = 0.5


class Recorder:
    def __init__(self, *, begin: float) -> None:
        """`begin`: when the warm-up is over."""
        self.begin = begin
        self.end = float("inf")
        self.under_way = 0
        self._finished: list[float] = []
        self._due: list[float] = []
        self._took: list[float] = []
        self._lags: list[float] = []
        self._errors: Counter[str] = Counter()
        self._timeouts = 0
        self._cpu_began: float | None = None
        self._cpu_seconds = 0.0

    def done(self, due: float, sent: float | None, now: float, kind: str) -> None:
        """A request that was to be sent at `due` and was sent at `sent` has ended at `now`.

        `sent` None: a closed loop's, sent when it was due; how late is told by `late()`.
        """
        if kind == OK and self.begin <= now < self.end:
            self._finished.append(now)
        if not self.begin <= due < self.end:
            return
        if sent is not None:
            self._lags.append(sent - due)
        if kind == OK:
            self._due.append(due)
            self._took.append(now - due)
        elif kind == TIMEOUT:
            self._timeouts += 1
        else:
            self._errors[kind] += 1

    def never_sent(self, due: float, kind: str) -> None:
        if self.begin <= due < self.end:
            self._errors[kind] += 1

    def late(self, seconds: float) -> None:
        """How much later than asked this process woke up: what a ready caller had to wait."""
        if time.perf_counter() >= self.begin:
            self._lags.append(seconds)

    def count_rest(self) -> None:
        """What is still under way is not answered in time."""
        self._timeouts += self.under_way

    def watch_cpu(self) -> None:
        """Call it often: from the first call after `begin` until `end` it counts."""
        now = time.perf_counter()
        if self.begin <= now and self.end == float("inf"):
            if self._cpu_began is None:
                self._cpu_began = time.process_time()
            self._cpu_seconds = time.process_time() - self._cpu_began

    def report(self) -> dict[str, Any]:
        """All since the last one. Numbers only: it goes to another process."""
        finished, due, took, lags = (
            np.array(one) for one in (self._finished, self._due, self._took, self._lags)
        )
        self._finished, self._due, self._took, self._lags = [], [], [], []
        errors, timeouts = dict(self._errors), self._timeouts
        self._errors, self._timeouts = Counter(), 0
        windows = ((finished - self.begin) / WINDOW_SECONDS).astype(int)
        blocks = ((due - self.begin) / BLOCK_SECONDS).astype(int)
        return {
            "elapsed": min(time.perf_counter(), self.end) - self.begin,
            "windows": _counted(windows),
            "blocks": [[int(block), _binned(took[blocks == block])] for block in np.unique(blocks)],
            "lags": _binned(lags),
            "errors": errors,
            "timeouts": timeouts,
            "cpu_seconds": self._cpu_seconds,
        }


def _binned(seconds: Any) -> dict[str, Any]:
    milliseconds = seconds * 1000
    return {
        "bins": _counted(bin_numbers(milliseconds)) if len(seconds) else [],
        "sum_ms": float(milliseconds.sum()),
        "max_ms": float(milliseconds.max(initial=0.0)),
    }


def _counted(numbers: Any) -> list[list[int]]:
    found, counts = np.unique(numbers, return_counts=True)
    return [[int(one), int(count)] for one, count in zip(found, counts, strict=True)]
