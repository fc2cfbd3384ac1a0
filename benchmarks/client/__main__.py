"""Cost of the client beside plain boto3: `make bench-client`. Writes result.json and docs/performance.md.

CPU time of this process, user and system: what the endpoint's processes take is not in it.
"""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.client.ways import Way, pack, ways
from benchmarks.frame import ROOT, Log, Result, in_turn, machine, main
from servable_local.container.launch import launch

BLOCKS, CALLS, IMPORTS = 20, 200, 5
# A large JSON body costs a quarter of a second: as many blocks, each a tenth as long.
SHORTER = {"boto3, JSON, large": 20}
IMPORT = (
    "import time; t = time.perf_counter(); import servable_client; print(time.perf_counter() - t)"
)


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    with launch(pack(folder / "model.tar.gz"), {}) as process:
        all_ways = ways(process.url)
        for way in [*all_ways.values()] * 3:  # connections made, caches filled
            way()
        costs: dict[str, list[float]] = {name: [] for name in all_ways}
        for block, name in in_turn(all_ways, BLOCKS):
            costs[name].append(_cpu_ms(all_ways[name], SHORTER.get(name, CALLS)))
            log(f"block {block + 1} of {BLOCKS}: {name}")
    command = [sys.executable, "-c", IMPORT]
    imports = [subprocess.check_output(command, cwd=ROOT) for _ in range(IMPORTS)]
    return {
        "machine": before,
        "calls": CALLS,
        "shorter": SHORTER,
        "cpu_ms_per_call": costs,
        "import_seconds": [float(seconds) for seconds in imports],
    }


def _cpu_ms(way: Way, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        way()
    return 1000 * (time.process_time() - start) / calls


if __name__ == "__main__":
    sys.exit(main("client", measure))
