"""Outcomes of the requests of one step: recorded in every load worker, added up in one place.

A request is recorded with two list appends; everything else is done for many at once, when the
report is made. Times are of `time.perf_counter()`.
"""

import math
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import Any

import numpy as np

from servable.load.generator.outcomes import OK, TIMEOUT
from servable.load.measurement import KNOWN_SHARE, LoadStep
from servable.measured.precision import WINDOW_SECONDS, Interval, Latencies, percentile, throughput

BLOCK_SECONDS = 0.5


class Recorder:
    def __init__(self, *, begin: float) -> None:
        """`begin`: when the warm-up is over."""
        self.begin = begin
        self.end = float("inf")
        self.under_way = 0
        self.from_due = True
        """Whether every latency counts from the due time, and none from sending."""
        self._finished: list[float] = []
        self._due: list[float] = []
        self._took: list[float] = []
        self._lags: list[float] = []
        self._failed: list[float] = []
        self._errors: Counter[str] = Counter()
        self._first_answers: dict[str, str] = {}
        self._timeouts = 0
        self._cpu_began: float | None = None
        self._cpu_seconds = 0.0

    def done(self, due: float, now: float, kind: str, body: str) -> None:
        """Record a request that was due at `due` and ended at `now`; keep the first body of each error."""
        if kind == OK and self.begin <= now < self.end:
            self._finished.append(now)
        if kind != OK:
            self.fail(due, kind, body)
        elif self.begin <= due < self.end:
            self._due.append(due)
            self._took.append(now - due)

    def fail(self, due: float, kind: str, body: str = "") -> None:
        """Record a request that failed or wasn't sent."""
        if not self.begin <= due < self.end:
            return
        self._failed.append(due)
        if kind == TIMEOUT:
            self._timeouts += 1
            return
        self._errors[kind] += 1
        if body:
            self._first_answers.setdefault(kind, body)

    def late(self, due: float, seconds: float) -> None:
        """Record by how much this process was late for something that was due."""
        if self.begin <= due < self.end:
            self._lags.append(seconds)

    def count_rest(self, waiting: int = 0) -> None:
        """Count the tasks that are still running, and those that never started, as timeouts."""
        self._timeouts += self.under_way + waiting

    def watch_cpu(self) -> None:
        """Call it often: from the first call after `begin` until `end` it counts."""
        now = time.perf_counter()
        if self.begin <= now and self.end == float("inf"):
            if self._cpu_began is None:
                self._cpu_began = time.process_time()
            self._cpu_seconds = time.process_time() - self._cpu_began

    def report(self) -> dict[str, Any]:
        """Return all since the last report, as numbers and texts: it goes to another process."""
        finished, due, took, lags, failed = (
            np.array(times)
            for times in (self._finished, self._due, self._took, self._lags, self._failed)
        )
        self._finished, self._due, self._took, self._lags, self._failed = [], [], [], [], []
        errors, timeouts = dict(self._errors), self._timeouts
        self._errors, self._timeouts = Counter(), 0
        windows = ((finished - self.begin) / WINDOW_SECONDS).astype(int)
        blocks = ((due - self.begin) / BLOCK_SECONDS).astype(int)
        return {
            "elapsed": min(time.perf_counter(), self.end) - self.begin,
            "windows": dict(Counter(windows.tolist())),
            "blocks": {
                int(block): asdict(Latencies.of(1000 * took[blocks == block]))
                for block in np.unique(blocks)
            },
            "failed": dict(Counter(((failed - self.begin) / BLOCK_SECONDS).astype(int).tolist())),
            "lags": asdict(Latencies.of(1000 * lags)),
            "errors": errors,
            "first_answers": self._first_answers,
            "timeouts": timeouts,
            "cpu_seconds": self._cpu_seconds,
            "from_due": self.from_due,
        }


class Tally:
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._elapsed: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._final: set[str] = set()
        self._windows: Counter[int] = Counter()
        self._blocks: dict[int, Latencies] = defaultdict(Latencies)
        self._failed: Counter[int] = Counter()
        self._lags = Latencies()
        self._errors: Counter[str] = Counter()
        self._first_answers: dict[str, str] = {}
        self._timeouts = 0
        self._from_due = True

    def add(self, report: dict[str, Any]) -> None:
        worker = report["worker"]
        self._elapsed[worker] = report["elapsed"]
        self._cpu[worker] = report["cpu_seconds"]
        if report["final"]:
            self._final.add(worker)
        self._windows.update(report["windows"])
        for block, latencies in report["blocks"].items():
            self._blocks[block] += Latencies(**latencies)
        self._failed.update(report["failed"])
        self._lags += Latencies(**report["lags"])
        self._errors.update(report["errors"])
        self._first_answers = report["first_answers"] | self._first_answers
        self._timeouts += report["timeouts"]
        self._from_due &= report["from_due"]

    @property
    def complete(self) -> bool:
        return len(self._final) >= self._workers

    @property
    def seconds(self) -> float:
        """Measured so far by every process, in whole windows."""
        if len(self._elapsed) < self._workers:
            return 0.0
        return max(0, int(min(self._elapsed.values()) / WINDOW_SECONDS)) * WINDOW_SECONDS

    @property
    def known(self) -> bool:
        answered = self._answered()
        return answered.value > 0 and answered.half_width_share <= KNOWN_SHARE

    def _answered(self) -> Interval:
        windows = range(round(self.seconds / WINDOW_SECONDS))
        return throughput([self._windows[window] for window in windows], WINDOW_SECONDS)

    def progress(self) -> dict[str, Any]:
        answered = self._answered()
        latencies = sum(self._blocks.values(), start=Latencies())
        return {
            "seconds": self.seconds,
            "rps": answered.value,
            "known_within": answered.half_width_share if answered.value else None,
            "p50_ms": latencies.p50_ms if latencies.count else None,
            "p99_ms": latencies.p99_ms if latencies.count else None,
            "failed": self._errors.total() + self._timeouts,
        }

    def step(self, options: dict[str, Any]) -> LoadStep:
        blocks = [self._blocks[block] for block in sorted(self._blocks)]
        latencies, seconds = sum(blocks, start=Latencies()), self.seconds
        slow_ms = latencies.p95_ms if latencies.count else 0.0
        parts = range(math.ceil(seconds / BLOCK_SECONDS))
        return LoadStep(
            users=options.get("users"),
            rate_rps=options.get("rate_rps"),
            warm_up_seconds=options["warm_up_seconds"],
            seconds=seconds,
            throughput_rps=self._answered(),
            latencies=latencies,
            tails=tuple(self._blocks[block].above(slow_ms) for block in parts),
            answered=tuple(self._blocks[block].count for block in parts),
            failures=tuple(self._failed[block] for block in parts),
            p95_interval_ms=percentile(blocks, 95),
            p99_interval_ms=percentile(blocks, 99),
            errors=dict(sorted(self._errors.items())),
            first_answers=dict(sorted(self._first_answers.items())),
            timeouts=self._timeouts,
            from_due=self._from_due,
            send_lags=self._lags,
            generator_cpu_share=(
                sum(self._cpu.values()) / (self._workers * seconds) if seconds else 0.0
            ),
        )
