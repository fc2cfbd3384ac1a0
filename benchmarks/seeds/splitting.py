"""S4: 500 rows whole, in ten parts side by side, and as the client chooses by itself."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serving import workload
from local.endpoint.launch import launch
from servable_client import Endpoint

ROWS, PART_ROWS = 500, 50
REPEATS, CALLS = 5, 12
# The client tries numbers of parts, upwards, until one is clearly slower: some calls of learning.
LEARNING_CALLS = 12
ROW_MS = 0.3  # 150 ms for 500 rows on one core: the article's request, whole
SIMULATED_CORES = (1, 4, 16)
WAYS: dict[str, Any] = {"whole": None, "10 x 50": PART_ROWS, "chosen": "measured"}


def measured(archive: Path, told: Callable[[str], None]) -> list[dict[str, Any]]:
    found = []
    with launch(archive, {}) as process:
        found += _split(process.url, "local endpoint")
    told("splitting: local endpoint")
    for cores in SIMULATED_CORES:
        with _simulated(cores) as url:
            found += _split(url, f"simulated, {cores} cores")
        told(f"splitting: {cores} simulated cores")
    return found


def _split(url: str, where: str) -> list[dict[str, Any]]:
    array, found = workload.rows(ROWS), []
    with Endpoint.local(url, format="npy") as endpoint:
        for _ in range(LEARNING_CALLS):
            endpoint.predict(array, split="measured")
        for repeat in range(REPEATS):
            # In turn call by call, so that what slows the machine slows all ways.
            latencies: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(CALLS):
                for way, split in WAYS.items():
                    began = time.perf_counter()
                    endpoint.predict(array, split=split)
                    latencies[way].append((time.perf_counter() - began) * 1000)
            for way, of in latencies.items():
                row = {"repeat": repeat, "where": where, "way": way}
                found.append({**row, "latency_ms": median(of)})
    return found


@contextmanager
def _simulated(cores: int) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.seeds.simulated_cores", str(cores), str(ROW_MS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
