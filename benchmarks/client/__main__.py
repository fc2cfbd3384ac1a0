"""What the client costs beside plain boto3: `make bench-client`. Writes result.json and docs/performance.md.

CPU time of this process, user and system: what the endpoint's processes take is not in it.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.client.report import RESULT
from benchmarks.client.ways import Way, pack, ways
from benchmarks.command import ROOT, Told, in_turn, machine, main
from servable_local.container.launch import launch

BLOCKS = 20
CALLS = 200
# A large JSON body costs a quarter of a second: as many blocks, each a tenth as long.
SHORTER = {"boto3, JSON, large": 20}
IMPORTS = 5
_IMPORT = (
    "import time; t = time.perf_counter(); import servable_client; print(time.perf_counter() - t)"
)


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    with launch(pack(folder / "model.tar.gz"), {}) as process:
        all_ways = ways(process.url)
        for way in [*all_ways.values()] * 3:  # connections made, caches filled
            way()
        found: dict[str, list[float]] = {name: [] for name in all_ways}
        for block, name in in_turn(all_ways, BLOCKS):
            found[name].append(_cpu_ms(all_ways[name], SHORTER.get(name, CALLS)))
            told(f"block {block + 1} of {BLOCKS}: {name}")
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
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
