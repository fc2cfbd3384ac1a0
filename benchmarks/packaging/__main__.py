"""How fast packing is: `make bench-packaging`. Writes result.json and docs/performance.md.

What it makes lies in .servable/benchmark-packaging and is removed, after Ctrl-C too; after
a kill -9, by the next run.
"""

import dataclasses
import importlib.metadata
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.machine import machine
from benchmarks.packaging import workload
from benchmarks.packaging.report import RESULT
from benchmarks.packaging.run import ROUNDS, once, recognised, rounds
from model_packaging.beside import beside
from model_packaging.manifest import GRANULARITY_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / ".servable" / "benchmark-packaging"


def measured(told: Callable[[str], None]) -> dict[str, Any]:
    told("making 400 MB of weights")
    small = workload.weights(SCRATCH / "small")
    large = workload.large(SCRATCH / "large", small)
    runs = rounds(SCRATCH / "small", SCRATCH, told)
    told("packing 2 GB")
    of_large = once("servable", large.servables[0].folder.parent, SCRATCH / "archive")
    told("reading 10 GB of sparse files, once")
    workload.sparse(SCRATCH / "sparse")
    # A file as young as the clock's step is not trusted, and is read again.
    time.sleep(GRANULARITY_SECONDS + 0.1)
    first = recognised(SCRATCH / "sparse", SCRATCH / "cache")
    again = [recognised(SCRATCH / "sparse", SCRATCH / "cache") for _ in range(ROUNDS)]
    told(f"recognised: {max(again):.2f} s at most")
    return {
        "machine": {**machine(), "isal": importlib.metadata.version("isal")},
        "input_bytes": workload.WEIGHTS_BYTES,
        "runs": {way: [dataclasses.asdict(run) for run in of] for way, of in runs.items()},
        "large": {"input_bytes": large_bytes(), **dataclasses.asdict(of_large)},
        "unchanged": {
            "files": workload.SPARSE_FILES,
            "input_bytes": workload.SPARSE_FILES * workload.SPARSE_FILE_BYTES,
            "first_seconds": first,
            "again_seconds": again,
        },
    }


def large_bytes() -> int:
    return workload.LARGE_COPIES * workload.WEIGHTS_BYTES


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    start = time.monotonic()
    try:
        result = measured(
            lambda text: print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr)
        )
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    with beside(RESULT) as file:
        file.write((json.dumps(result, indent=2) + "\n").encode())
    page.write()
    print(page.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
