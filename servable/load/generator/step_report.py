"""The outcomes of one step's requests: recorded in every load worker, added up in one place.

Recording a request takes two list appends; everything else is done for many requests at once,
when the report is created. Times are values of `time.perf_counter()`.
"""

import json
import math
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from servable.load.measurement import KNOWN_SHARE, LoadStep
from servable.measured.precision import (
    WINDOW_SECONDS,
    Interval,
    Latencies,
    compute_percentile,
    compute_throughput,
)

BLOCK_SECONDS = 0.5


OK = ""
TIMEOUT = "timeout"
_MOST_ERROR_BYTES = 4096
# By the name of the exception's class, or of one of its bases.
_ERRORS = {
    "TimeoutError": TIMEOUT,
    "Timeout": TIMEOUT,
    "ConnectionRefusedError": "connection refused",
    "gaierror": "address not found",
    "SSLError": "TLS",
    "ConnectionResetError": "connection broken",
    "BrokenPipeError": "connection broken",
    "HTTPConnectionClosed": "connection broken",
    "HTTPParseError": "the response isn't HTTP",
}


def describe_outcome(exception: BaseException | None, response: Any) -> tuple[str, str]:
    """Return (outcome, body of the error response) of a request.

    The outcome is OK, TIMEOUT, or the kind of error, such as "500" or "connection refused".
    """
    status = getattr(response, "status_code", 0) or 0
    if exception is None and status < 300:
        return OK, ""
    if status < 300:  # none came, or a locustfile rejects it
        error = getattr(exception, "original", exception)  # of geventhttpclient's RetriesExceeded
        kinds = (_ERRORS.get(base.__name__) for base in type(error).__mro__)
        return next(filter(None, kinds), str(error) or type(error).__name__), ""
    content = (response.content or b"")[:_MOST_ERROR_BYTES]
    error_type = (response.headers or {}).get("x-amzn-errortype", "").partition(":")[0]
    kind = f"{status} {error_type}".rstrip()
    with suppress(ValueError, KeyError, TypeError):  # a body without the container's status
        if error_type:
            kind += f", {json.loads(content)['OriginalStatusCode']} from the container"
    return kind, content.decode(errors="replace").strip()


class Recorder:
    def __init__(self, *, begin: float) -> None:
        """Start with no requests recorded. `begin`: time at which the warm-up is over."""
        self.begin = begin
        self.end = float("inf")
        self.under_way = 0
        self.from_due = True
        """Whether every latency counts from the due time, and none from sending."""
        self._cpu_began: float | None = None
        self._cpu_seconds = 0.0
        self._first_answers: dict[str, str] = {}
        self._clear()

    def _clear(self) -> None:
        self._finished: list[float] = []
        self._due: list[float] = []
        self._took: list[float] = []
        self._lags: list[float] = []
        self._failed: list[float] = []
        self._errors: Counter[str] = Counter()

    def record_response(self, due: float, now: float, kind: str, body: str) -> None:
        """Record a request that was due at `due` and ended at `now`.

        The first body of each kind of error is kept.
        """
        if kind != OK:
            self.record_failure(due, kind, body)
            return
        if self.begin <= now < self.end:
            self._finished.append(now)
        if self.begin <= due < self.end:
            self._due.append(due)
            self._took.append(now - due)

    def record_failure(self, due: float, kind: str, body: str = "") -> None:
        """Record a request that failed or wasn't sent."""
        if self.begin <= due < self.end:
            self._failed.append(due)
            self._errors[kind] += 1
            if body:
                self._first_answers.setdefault(kind, body)

    def record_lag(self, due: float, seconds: float) -> None:
        """Record how late this process was for an event that was due at `due`."""
        if self.begin <= due < self.end:
            self._lags.append(seconds)

    def count_unfinished(self, waiting: int) -> None:
        """Count unfinished tasks as timeouts: those still running and those never started."""
        self._errors[TIMEOUT] += self.under_way + waiting

    def update_cpu_time(self) -> None:
        """Update the CPU time of this process.

        Call it often: time counts from the first call after `begin` until `end`.
        """
        if self.begin <= time.perf_counter() and self.end == float("inf"):
            if self._cpu_began is None:
                self._cpu_began = time.process_time()
            self._cpu_seconds = time.process_time() - self._cpu_began

    def collect_report(self) -> dict[str, Any]:
        """Return everything recorded since the last report, as numbers and strings.

        The report is sent to another process.
        """
        due, took = np.array(self._due), 1000 * np.array(self._took)
        blocks = ((due - self.begin) / BLOCK_SECONDS).astype(int)
        report = {
            "elapsed": min(time.perf_counter(), self.end) - self.begin,
            "windows": self._count_by_interval(self._finished, WINDOW_SECONDS),
            "blocks": {
                int(block): asdict(Latencies.from_milliseconds(took[blocks == block]))
                for block in np.unique(blocks)
            },
            "failed": self._count_by_interval(self._failed, BLOCK_SECONDS),
            "lags": asdict(Latencies.from_milliseconds(1000 * np.array(self._lags))),
            "errors": dict(self._errors),
            "first_answers": self._first_answers,
            "cpu_seconds": self._cpu_seconds,
            "from_due": self.from_due,
        }
        self._clear()
        return report

    def _count_by_interval(self, moments: list[float], seconds: float) -> dict[int, int]:
        """Count the moments in each interval of `seconds` since `begin`."""
        return dict(Counter(int((moment - self.begin) / seconds) for moment in moments))


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
        self._from_due &= report["from_due"]

    @property
    def is_complete(self) -> bool:
        return len(self._final) >= self._workers

    @property
    def seconds(self) -> float:
        """Return the seconds that every process has measured so far, in whole windows."""
        if len(self._elapsed) < self._workers:
            return 0.0
        return max(0, int(min(self._elapsed.values()) / WINDOW_SECONDS)) * WINDOW_SECONDS

    @property
    def has_known_throughput(self) -> bool:
        answered = self._estimate_throughput()
        return answered.value > 0 and answered.half_width_share <= KNOWN_SHARE

    def _estimate_throughput(self) -> Interval:
        windows = range(round(self.seconds / WINDOW_SECONDS))
        return compute_throughput([self._windows[window] for window in windows], WINDOW_SECONDS)

    def describe_progress(self) -> dict[str, float]:
        """Return the seconds measured so far, and the responses per second."""
        return {"seconds": self.seconds, "rps": self._estimate_throughput().value}

    def build_step(self, options: dict[str, Any]) -> LoadStep:
        blocks = [self._blocks[block] for block in sorted(self._blocks)]
        latencies, seconds = sum(blocks, start=Latencies()), self.seconds
        errors = dict(sorted((+self._errors).items()))
        slow_ms = latencies.p95_ms if latencies.count else 0.0
        parts = range(math.ceil(seconds / BLOCK_SECONDS))
        return LoadStep(
            users=options.get("users"),
            rate_rps=options.get("rate_rps"),
            warm_up_seconds=options["warm_up_seconds"],
            seconds=seconds,
            throughput_rps=self._estimate_throughput(),
            latencies=latencies,
            tails=tuple(self._blocks[block].select_above(slow_ms) for block in parts),
            answered=tuple(self._blocks[block].count for block in parts),
            failures=tuple(self._failed[block] for block in parts),
            p95_interval_ms=compute_percentile(blocks, 95),
            p99_interval_ms=compute_percentile(blocks, 99),
            timeouts=errors.pop(TIMEOUT, 0),
            errors=errors,
            first_answers=dict(sorted(self._first_answers.items())),
            from_due=self._from_due,
            send_lags=self._lags,
            generator_cpu_share=(
                sum(self._cpu.values()) / (self._workers * seconds) if seconds else 0.0
            ),
        )
