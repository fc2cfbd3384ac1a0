"""Counts of a replay: answers, failures by kind, latency and send lag."""

import datetime
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from servable.measured.precision import Latencies
from servable.replay.answers import AnswerPair
from servable.replay.index import CaptureIndex

_AT_ONCE = 1000


class ReplaySummary:
    """`add` each answer; the rest is what they were."""

    def __init__(self) -> None:
        self.answered = 0
        """Requests with an outcome, failures included."""
        self.failures: Counter[str] = Counter()
        """By kind: "timeout", "connection refused", "500"."""
        self._latencies = self._lags = Latencies()
        self._new: list[tuple[float, float]] = []

    def add(self, pair: AnswerPair) -> None:
        self.answered += 1
        answer, captured = pair.answered, pair.request.answer
        if answer.failed:
            # What was refused then and is refused now is no failure. An endpoint says 424 for any refusal
            # of its container: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
            if answer.error or captured is None or not captured.failed:
                self.failures[answer.error or str(answer.status)] += 1
        elif answer.latency_ms is not None:
            self._new.append((answer.latency_ms, pair.send_lag_ms))
            if len(self._new) >= _AT_ONCE:
                self._fold()

    def _fold(self) -> None:
        self._latencies += Latencies.of(latency for latency, _ in self._new)
        self._lags += Latencies.of(lag for _, lag in self._new)
        self._new = []

    @property
    def latencies(self) -> Latencies:
        """Latencies of successful answers, each from the moment its request was sent."""
        self._fold()
        return self._latencies

    @property
    def send_lags(self) -> Latencies:
        """Delays of the requests behind their scheduled times."""
        self._fold()
        return self._lags


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """A replay that has ended, or was interrupted."""

    folder: Path
    index: CaptureIndex
    summary: ReplaySummary
    seconds: float
    """Duration in this process; an earlier one that was interrupted is not counted."""
    interrupted: bool

    def as_object(self) -> dict[str, Any]:
        """Return the object that `--json` prints; milliseconds are None if nothing was answered."""
        latencies, lags = self.summary.latencies, self.summary.send_lags
        return {
            "folder": str(self.folder),
            "requests": len(self.index),
            "answered": self.summary.answered,
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "failures": dict(self.summary.failures),
            "latency_ms": _percentiles(latencies),
            "send_lag_ms": _percentiles(lags),
            "lines_read": self.index.lines_read,
            "skipped": [asdict(skipped) for skipped in self.index.skipped],
        }

    def lines(self) -> list[str]:
        """Return the summary as lines for people."""
        summary, latencies, lags = self.summary, self.summary.latencies, self.summary.send_lags
        lines = [f"{summary.answered:,} of {len(self.index):,} requests answered"]
        for kind, count in summary.failures.most_common():
            lines.append(f"{count:,} failed: {kind}")
        if latencies.count:
            lines.append(
                f"latency p50 {latencies.p50_ms:.1f} ms, p99 {latencies.p99_ms:.1f} ms; sent late p50 "
                f"{lags.p50_ms:.1f} ms, p99 {lags.p99_ms:.1f} ms"
            )
        return [*lines, f"{self.folder}: requests and answers, readable by you alone"]


def _percentiles(latencies: Latencies) -> dict[str, float] | None:
    if not latencies.count:
        return None
    return {"p50": latencies.p50_ms, "p99": latencies.p99_ms, "max": latencies.max_ms}


def utc_text(seconds: float) -> str:
    """Return a moment for a message, as 2026-11-21 09:00:00 UTC."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
