"""Measures the speed and memory of packing a model, compared with tar."""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.frame import ROOT, Log, Result, compute_spread, divide, measure_in_turn
from model_packaging.archive import pack
from model_packaging.inputs import GRANULARITY_SECONDS, ArchiveInputs, Servable, compute_key

TITLE = "Packing"
CLAIMS = False
TEXT = """\
The input is 400 MB of normally distributed float32 in the page cache. Servable also hashes the archive and
waits until it is on the disk; the others do neither. The last ratio compares recognizing an unchanged model
of 2,000 files and 10 GB with hashing it.
"""
OURS, TAR_GZIP, TAR = "servable", "`tar czf`", "`tar cf`"
BOUNDS = {
    f"{TAR_GZIP} / {OURS}, time": (12, float("inf")),
    f"{OURS} / {TAR_GZIP}, size": (0, 1.01),
    "peak memory, 2 GB / 400 MB": (0, 1.5),
    "unchanged files, hashing / recognizing": (30, float("inf")),
}
REPEATS, SEED, WEIGHTS = 5, 20_261_120, 100_000_000
# As far from zero as trained weights are.
DEVIATION = 0.05
LARGE_COPIES, SPARSE_FILES, SPARSE_BYTES = 5, 2_000, 5_000_000
SECONDS, MEMORY, SIZE = "seconds", "peak memory, MB", "archive, MB"


def measure(_: Path, log: Log) -> Result:
    """Pack in every way. The folder is on the disk, because a temporary folder may be in memory."""
    disk = ROOT / ".servable"
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk, prefix="benchmark-packaging-") as folder:
        return _measure(Path(folder), log)


def _measure(folder: Path, log: Log) -> Result:
    small, large, sparse = (_write_model(folder / name) for name in ("small", "large", "sparse"))
    weights = np.random.default_rng(SEED).standard_normal(WEIGHTS, dtype=np.float32)
    (weights * np.float32(DEVIATION)).tofile(small / "weights")
    ways = {way: partial(_run_packer, way, small, folder / "a") for way in (OURS, TAR_GZIP, TAR)}
    runs = measure_in_turn(ways, REPEATS, log)
    columns = {
        way: {column: [run[column] for run in of_way] for column in of_way[0]}
        for way, of_way in runs.items()
    }
    for number in range(LARGE_COPIES):  # links: they cost no disk
        os.link(small / "weights", large / f"weights-{number}")
    of_large = _run_packer(OURS, large, folder / "a")
    for number in range(SPARSE_FILES):
        with (sparse / f"shard-{number:04}").open("wb") as file:
            file.truncate(SPARSE_BYTES)
    # A file as young as the clock's step is not trusted, and is read again.
    time.sleep(GRANULARITY_SECONDS + 0.1)
    first, *again = (_run_packer("key", sparse, folder / "cache") for _ in range(REPEATS + 1))
    seconds = {way: column[SECONDS] for way, column in columns.items()}
    ratios = [
        divide(seconds[TAR_GZIP], seconds[OURS]),
        divide(columns[OURS][SIZE][:1], columns[TAR_GZIP][SIZE][:1]),
        divide([of_large[MEMORY]], [max(columns[OURS][MEMORY])]),
        divide([first[SECONDS]] * REPEATS, [run[SECONDS] for run in again]),
    ]
    rows = columns | {"servable, 2 GB": {column: [value] for column, value in of_large.items()}}
    return {
        "table": {
            way: {name: compute_spread(values) for name, values in row.items()}
            for way, row in rows.items()
        },
        "ratios": dict(zip(BOUNDS, ratios, strict=True)),
    }


def _write_model(folder: Path) -> Path:
    variables = folder / "1" / "variables"
    variables.mkdir(parents=True)
    (folder / "1" / "saved_model.pb").write_bytes(b"a graph")
    return variables


def _run_packer(way: str, variables: Path, target: Path) -> dict[str, float]:
    """Run one way to pack in a separate process; return its measurements."""
    # What the previous run left to be written must not slow down this one.
    os.sync()
    folder, start = variables.parents[1], time.perf_counter()
    if way in (TAR_GZIP, TAR):
        subprocess.run([*way.strip("`").split(), target, "-C", folder, "1"], check=True)
        run = {SECONDS: time.perf_counter() - start}
    else:
        command = [sys.executable, "-m", "benchmarks.packaging", way, str(folder), str(target)]
        run = json.loads(subprocess.check_output(command))
    if target.is_file():
        run[SIZE] = target.stat().st_size / 1e6
        target.unlink()
    return run


def _main(way: str, folder: Path, target: Path) -> None:
    """Print the seconds of the work, without Python's startup time, and the peak memory."""
    inputs = ArchiveInputs(servables=(Servable(name="weights", folder=folder),))
    start = time.perf_counter()
    if way == OURS:
        pack(inputs, target)
    else:
        compute_key(inputs, cache=target)
    seconds = time.perf_counter() - start
    # Not getrusage: its peak includes that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps({SECONDS: seconds, MEMORY: peak_kib * 1024 / 1e6}))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
