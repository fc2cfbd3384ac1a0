"""What the client costs beside plain boto3: `make bench-client`. Writes result.json and docs/performance.md.

CPU time of this process, user and system: what the endpoint's processes take is not in it.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.client import workload
from benchmarks.client.report import RESULT
from benchmarks.client.ways import Way, ways
from benchmarks.command import main
from benchmarks.machine import machine
from servable_local.container.launch import launch

BLOCKS = 20
CALLS = 200
# A large JSON body costs a quarter of a second: as many blocks, each a tenth as long.
SHORTER = {"boto3, JSON, large": 20}
IMPORTS = 5
_IMPORT = (
    "import time; t = time.perf_counter(); import servable_client; print(time.perf_counter() - t)"
)


def measured(url: str, told: Callable[[str], None]) -> dict[str, Any]:
    before = machine()
    found: dict[str, list[float]] = {}
    all_ways = ways(url)
    for name, way in all_ways.items():
        found[name] = []
        for _ in range(3):  # connections made, caches filled
            way()
    for block in range(BLOCKS):
        # Each block starts with another way, so that none always comes first.
        turn = block % len(all_ways)
        for name in [*all_ways][turn:] + [*all_ways][:turn]:
            found[name].append(_cpu_ms(all_ways[name], SHORTER.get(name, CALLS)))
        told(f"block {block + 1} of {BLOCKS}")
    return {
        "machine": before,
        "calls": CALLS,
        "shorter": SHORTER,
        "cpu_ms_per_call": found,
        "import_seconds": [_import_seconds() for _ in range(IMPORTS)],
    }


def _cpu_ms(way: Way, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        way()
    return 1000 * (time.process_time() - start) / calls


def _import_seconds() -> float:
    command = [sys.executable, "-c", _IMPORT]
    ran = subprocess.run(command, cwd=workload.ROOT, check=True, capture_output=True, text=True)
    return float(ran.stdout)


def served(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    with launch(workload.pack(folder / "model.tar.gz"), {}) as process:
        return measured(process.url, told)


if __name__ == "__main__":
    sys.exit(main(served, RESULT))
