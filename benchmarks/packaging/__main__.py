"""Speed of packing: `make bench-packaging`. Writes result.json and docs/performance.md.

Its files lie in .servable/benchmark-packaging and are removed, after Ctrl-C too; after
a kill -9, by the next run.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame import ROOT, Log, Result, in_turn, machine, main
from model_packaging.manifest import GRANULARITY_SECONDS

SCRATCH = ROOT / ".servable" / "benchmark-packaging"
ROUNDS = 5
TAR = {"tar_gzip": "czf", "tar": "cf"}
WAYS = ("servable", "tar_gzip", "python_tarfile", "tar")
SEED = 20_261_120
WEIGHTS_BYTES = 400_000_000
# As far from zero as trained weights lie; what counts is that their low bits are noise.
WEIGHTS_DEVIATION = 0.05
LARGE_COPIES = 5
SPARSE_FILES, SPARSE_FILE_BYTES = 2_000, 5_000_000
_PIECE = 1_000_000


def measure(_: Path, log: Log) -> Result:
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    try:
        return _measured(log)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


def _measured(log: Log) -> Result:
    log("making 400 MB of weights")
    small, target = _model("small"), SCRATCH / "archive"
    shard = small / "1" / "variables" / "variables.data"
    _weights(shard)
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number, way in in_turn(WAYS, ROUNDS):
        run = _pack(way, small, target)
        runs[way].append(run)
        log(f"round {number + 1} of {ROUNDS}: {way:15} {run['seconds']:7.2f} s")
    log("packing 2 GB")
    large = _model("large")
    for number in range(LARGE_COPIES):  # links: they cost no disk
        os.link(shard, large / "1" / "variables" / f"variables.data-{number}")
    of_large = _pack("servable", large, target)
    log("reading 10 GB of sparse files, once")
    sparse = _model("sparse")
    for number in range(SPARSE_FILES):
        with (sparse / "1" / "variables" / f"shard-{number:04}").open("wb") as file:
            file.truncate(SPARSE_FILE_BYTES)
    # A file as young as the clock's step is not trusted, and is read again.
    time.sleep(GRANULARITY_SECONDS + 0.1)
    first, *again = (
        _python("recognise", sparse, SCRATCH / "cache")["seconds"] for _ in range(ROUNDS + 1)
    )
    log(f"recognised: {max(again):.2f} s at most")
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


def _model(name: str) -> Path:
    """The folder of a model with one version."""
    folder = SCRATCH / name / "model"
    (folder / "1" / "variables").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").write_bytes(b"a graph")
    return folder


def _weights(shard: Path) -> None:
    """400 MB of float32, the same on every computer."""
    random = np.random.default_rng(SEED)
    with shard.open("wb") as file:
        for _ in range(WEIGHTS_BYTES // (4 * _PIECE)):
            piece = random.standard_normal(_PIECE, dtype=np.float32)
            file.write((piece * np.float32(WEIGHTS_DEVIATION)).tobytes())


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
    command = [
        sys.executable,
        "-m",
        "benchmarks.packaging.contender",
        way,
        str(folder),
        str(target),
    ]
    parsed: dict[str, Any] = json.loads(subprocess.check_output(command))
    return parsed


if __name__ == "__main__":
    sys.exit(main("packaging", measure))
