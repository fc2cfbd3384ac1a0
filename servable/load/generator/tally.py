"""What all sending processes have reported of one step, added up."""

from collections import Counter, defaultdict
from typing import Any

from servable.load.latencies import Latencies
from servable.load.measurement import KNOWN_SHARE, Step
from servable.load.precision import WINDOW_SECONDS, percentile, throughput


class Tally:
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._elapsed: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._final: set[str] = set()
        self._windows: Counter[int] = Counter()
        self._blocks: dict[int, Latencies] = defaultdict(Latencies)
        self._lags = Latencies()
        self._errors: Counter[str] = Counter()
        self._timeouts = 0

    def add(self, report: dict[str, Any]) -> None:
        worker = report["worker"]
        self._elapsed[worker] = report["elapsed"]
        self._cpu[worker] = report["cpu_seconds"]
        if report["final"]:
            self._final.add(worker)
        for window, count in report["windows"]:
            self._windows[window] += count
        for block, one in report["blocks"]:
            self._blocks[block] += _latencies(one)
        self._lags += _latencies(report["lags"])
        self._errors.update(report["errors"])
        self._timeouts += report["timeouts"]

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
        windows = self._counts()
        return bool(sum(windows)) and (
            throughput(windows, WINDOW_SECONDS).half_width_share <= KNOWN_SHARE
        )

    def _counts(self) -> list[int]:
        return [self._windows[one] for one in range(round(self.seconds / WINDOW_SECONDS))]

    def progress(self) -> dict[str, Any]:
        found = throughput(self._counts(), WINDOW_SECONDS)
        latencies = sum(self._blocks.values(), start=Latencies())
        return {
            "seconds": self.seconds,
            "rps": found.value,
            "known_within": found.half_width_share if found.value else None,
            "p50_ms": latencies.p50_ms if latencies.count else None,
            "p99_ms": latencies.p99_ms if latencies.count else None,
            "failed": self._errors.total() + self._timeouts,
        }

    def step(self, told: dict[str, Any]) -> Step:
        blocks = [self._blocks[one] for one in sorted(self._blocks)]
        seconds = self.seconds
        return Step(
            users=told.get("users"),
            rate_rps=told.get("rate_rps"),
            warm_up_seconds=told["warm_up_seconds"],
            seconds=seconds,
            throughput_rps=throughput(self._counts(), WINDOW_SECONDS),
            latencies=sum(blocks, start=Latencies()),
            p95_interval_ms=percentile(blocks, 95),
            p99_interval_ms=percentile(blocks, 99),
            errors=dict(sorted(self._errors.items())),
            timeouts=self._timeouts,
            send_lags=self._lags,
            generator_cpu_share=(
                sum(self._cpu.values()) / (self._workers * seconds) if seconds else 0.0
            ),
        )


def _latencies(told: dict[str, Any]) -> Latencies:
    return Latencies(bins=dict(told["bins"]), sum_ms=told["sum_ms"], max_ms=told["max_ms"])
