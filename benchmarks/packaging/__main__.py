"""Speed of packing: `make bench-packaging`. Writes result.json and docs/performance.md."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.frame import ROOT, Log, Result, machine, main, rounds
from benchmarks.tables import Bound, quotients, table
from model_packaging.manifest import GRANULARITY_SECONDS

ROUNDS = 5
TAR = {"tar_gzip": "czf", "tar": "cf"}
# Way -> its label on the page.
WAYS = {
    "servable": "servable",
    "tar_gzip": "`tar czf`",
    "python_tarfile": 'Python\'s `tarfile.open("w:gz")`',
    "tar": "`tar cf`, no compression",
}
SEED = 20_261_120
WEIGHTS_BYTES = 400_000_000
# As far from zero as trained weights lie; what counts is that their low bits are noise.
WEIGHTS_DEVIATION = 0.05
LARGE_COPIES = 5
SPARSE_FILES, SPARSE_FILE_BYTES = 2_000, 5_000_000


def measure(_: Path, log: Log) -> Result:
    # A temporary folder may be memory, and what is measured is the disk.
    disk = ROOT / ".servable"
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk, prefix="benchmark-packaging-") as folder:
        return _measured(Path(folder), log)


def _measured(folder: Path, log: Log) -> Result:
    log("making 400 MB of weights")
    small, target = _model(folder / "small"), folder / "archive"
    shard = small / "1" / "variables" / "variables.data"
    # 400 MB of float32, the same on every computer.
    weights = np.random.default_rng(SEED).standard_normal(WEIGHTS_BYTES // 4, dtype=np.float32)
    weights *= np.float32(WEIGHTS_DEVIATION)
    weights.tofile(shard)
    runs = rounds({way: partial(_pack, way, small, target) for way in WAYS}, ROUNDS, log)
    log("packing 2 GB")
    large = _model(folder / "large")
    for number in range(LARGE_COPIES):  # links: they cost no disk
        os.link(shard, large / "1" / "variables" / f"variables.data-{number}")
    of_large = _pack("servable", large, target)
    log("reading 10 GB of sparse files, once")
    sparse = _model(folder / "sparse")
    for number in range(SPARSE_FILES):
        with (sparse / "1" / "variables" / f"shard-{number:04}").open("wb") as file:
            file.truncate(SPARSE_FILE_BYTES)
    # A file as young as the clock's step is not trusted, and is read again.
    time.sleep(GRANULARITY_SECONDS + 0.1)
    recognised = [_python("recognise", sparse, folder / "cache") for _ in range(ROUNDS + 1)]
    first, *again = (run["seconds"] for run in recognised)
    return {
        "machine": {**machine(), "isal": importlib.metadata.version("isal")},
        "input_bytes": WEIGHTS_BYTES,
        "runs": runs,
        "large": {"input_bytes": LARGE_COPIES * WEIGHTS_BYTES, **of_large},
        "unchanged": {
            "files": SPARSE_FILES,
            "input_bytes": SPARSE_FILES * SPARSE_FILE_BYTES,
            "first_seconds": first,
            "again_seconds": again,
        },
    }


def _model(folder: Path) -> Path:
    """Make a model with one version."""
    (folder / "1" / "variables").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").write_bytes(b"a graph")
    return folder


def _pack(way: str, folder: Path, target: Path) -> dict[str, Any]:
    # What the one before left to be written must not slow down this one.
    os.sync()
    if way in TAR:
        start = time.perf_counter()
        subprocess.run(["tar", TAR[way], target, "-C", folder, "1"], check=True)
        # The memory that tar takes is of no interest.
        run = {"seconds": time.perf_counter() - start, "peak_memory_bytes": None}
    else:
        run = _python(way, folder, target)
    archive_bytes = target.stat().st_size
    target.unlink()
    return {**run, "archive_bytes": archive_bytes}


def _python(way: str, folder: Path, target: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.packaging.contender", way]
    parsed: dict[str, Any] = json.loads(subprocess.check_output([*command, folder, target]))
    return parsed


def fields(result: Result) -> dict[str, Any]:
    rows = []
    for way, runs in result["runs"].items():
        seconds = [run["seconds"] for run in runs]
        size = f"{runs[0]['archive_bytes'] / 1e6:.1f}"
        span = f"{min(seconds):.2f} to {max(seconds):.2f}"
        rows.append((WAYS[way], f"{median(seconds):.2f}", span, size))
    return {
        "megabytes": result["input_bytes"] / 1e6,
        "rounds": len(result["runs"]["servable"]),
        "times": table(("", "seconds", "lowest to highest", "archive, MB"), rows),
        "unchanged_gb": result["unchanged"]["input_bytes"] / 1e9,
        "large_gb": result["large"]["input_bytes"] / 1e9,
    }


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    runs, large, unchanged = result["runs"], result["large"], result["unchanged"]
    seconds = {way: [run["seconds"] for run in of_way] for way, of_way in runs.items()}

    def times(label: str, above: str, below: str, **limit: float) -> Bound:
        ratios = quotients(seconds[above], seconds[below])
        return Bound(label=label, values=ratios, form=".1f", unit="x", **limit)

    def memory(label: str, most_bytes: int) -> Bound:
        return Bound(label=label, values=[most_bytes / 1e6], most=200, form=".0f", unit=" MB")

    yield times("faster than `tar czf`", "tar_gzip", "servable", least=20)
    yield times("faster than Python's tarfile", "python_tarfile", "servable", least=12)
    yield times("time of plain `tar cf`", "servable", "tar", most=2.5)
    size = runs["servable"][0]["archive_bytes"] / runs["tar_gzip"][0]["archive_bytes"]
    label = "size of `tar czf`'s archive"
    yield Bound(label=label, values=[size], most=1.01, form=".4f", unit="x")
    yield memory("peak memory", max(run["peak_memory_bytes"] for run in runs["servable"]))
    gigabytes = f"{large['input_bytes'] / 1e9:.0f} GB"
    yield memory(f"peak memory, {gigabytes}", large["peak_memory_bytes"])
    files, size, again = unchanged["files"], unchanged["input_bytes"], unchanged["again_seconds"]
    label = f"{files:,} unchanged files, {size / 1e9:.0f} GB, the slowest of {len(again)}"
    yield Bound(label=label, values=[max(again)], most=0.5, unit=" s")


if __name__ == "__main__":
    sys.exit(main("packaging", measure))
