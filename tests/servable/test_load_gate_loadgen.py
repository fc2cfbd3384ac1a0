"""The load gate beside MLPerf's loadgen: both judge the same requests to a made-up server.

requirements/dev.txt has `mlcommons-loadgen`; without it, skipped by name.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from servable.load.gate import evaluate_gate
from servable.load.objective import Objective
from servable.measured.measurement import BLOCK_SECONDS
from servable.measured.precision import Interval, Latencies
from tests.servable.tune.measured import curve, step

loadgen = pytest.importorskip(
    "mlperf_loadgen", reason="the second opinion needs `pip install mlcommons-loadgen`"
)
pytestmark = pytest.mark.long

# A computer with other work answers late too, hardly ever by half a second.
RATE, LIMIT_MS, FAST_SECONDS, SLOW_SECONDS = 1000, 500.0, 0.002, 0.8
Slow = Callable[[int], bool]
SERVERS: dict[str, tuple[int, Slow, bool]] = {
    "never slow": (1000, lambda number: False, True),
    "too few to tell": (458, lambda number: False, False),
    "just enough": (470, lambda number: False, True),
    "a fifth of the budget": (1500, lambda number: number % 500 == 7, True),
    "as much as is allowed": (1500, lambda number: number % 100 == 7, False),
    "too slow": (1000, lambda number: number % 20 == 7, False),
    "a stall": (1000, lambda number: 500 <= number < 600, False),
    "short stalls": (1500, lambda number: number % 500 < 25, False),
}


def measured(requests: int, slow: Slow, folder: Path) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return when requests were sent and what they took, in seconds, and whether loadgen passes them."""
    waiting: list[tuple[float, int, float]] = []
    changed, numbers = threading.Condition(), itertools.count()
    sent: list[float] = []
    took: list[float] = []

    def issue(queries: list[object]) -> None:
        now = time.perf_counter()
        with changed:
            for query in queries:
                wait = SLOW_SECONDS if slow(next(numbers)) else FAST_SECONDS
                heapq.heappush(waiting, (now + wait, query.id, now))  # type: ignore[attr-defined]
            changed.notify()

    def answer() -> None:
        while len(took) < requests:
            with changed:
                left = waiting[0][0] - time.perf_counter() if waiting else 0.01
                if not waiting or left > 0:
                    changed.wait(left)
                    continue
                _, query, begun = heapq.heappop(waiting)
            sent.append(begun)
            took.append(time.perf_counter() - begun)
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(query, 0, 0)])

    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.server_target_qps = RATE
    settings.server_target_latency_ns = int(LIMIT_MS * 1e6)
    settings.server_target_latency_percentile = 0.99
    settings.min_query_count = settings.max_query_count = requests
    settings.min_duration_ms = 1
    logs, output = loadgen.LogSettings(), loadgen.LogOutputSettings()
    output.outdir = str(folder)
    logs.log_output = output
    answers = threading.Thread(target=answer, daemon=True)
    answers.start()
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
    loadgen.StartTestWithLogSettings(system, library, settings, logs)
    answers.join(60)
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    if sum(seconds > LIMIT_MS / 1000 for seconds in took) != sum(map(slow, range(requests))):
        pytest.skip("the computer itself stood still for half a second")
    summary = (folder / "mlperf_log_summary.txt").read_text()
    return np.array(sent) - min(sent), np.array(took), "Result is : VALID" in summary


def held(sent: np.ndarray, took: np.ndarray) -> str:
    """Return the gate's verdict on the same requests."""
    seconds, blocks = float(sent.max()), (sent / BLOCK_SECONDS).astype(int)
    rps = len(sent) / seconds
    tails = tuple(
        Latencies.from_milliseconds(1000 * took[blocks == at]).select_above(LIMIT_MS)
        for at in range(max(blocks) + 1)
    )
    one = step(
        None, rps, rate_rps=rps, seconds=seconds, tails=tails,
        throughput_rps=Interval(value=rps, low=rps, high=rps),
        latencies=Latencies.from_milliseconds(1000 * took),
    )  # fmt: skip
    return evaluate_gate(curve(one), Objective(most_ms=LIMIT_MS)).held


@pytest.mark.parametrize("server", SERVERS)
def test_the_gate_passes_what_mlperf_s_loadgen_passes(server: str, tmp_path: Path) -> None:
    requests, slow, passes = SERVERS[server]
    sent, took, valid = measured(requests, slow, tmp_path)
    assert (valid, held(sent, took) == "met") == (passes, passes)


def test_a_stall_within_the_budget_passes_loadgen_and_cannot_be_told_here(tmp_path: Path) -> None:
    # The named difference: loadgen takes every request for independent.
    sent, took, valid = measured(4500, lambda number: 2000 <= number < 2020, tmp_path)
    assert (valid, held(sent, took)) == (True, "cannot be told")
