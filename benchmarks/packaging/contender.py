"""One run of one way to pack, in a process of its own; prints what it took as JSON.

    python -m benchmarks.packaging.contender WAY MODEL TARGET

A process each, so that the peak memory is its own. Seconds are those of the work, without
starting Python and its imports.
"""

import json
import sys
import tarfile
import time
from pathlib import Path

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key
from model_packaging.servable import Servable


def servable(folder: Path, target: Path) -> None:
    pack(_inputs(folder), target)


def python_tarfile(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder / "1", "weights/1")


def recognise(folder: Path, target: Path) -> None:
    """`target`: the cache's folder."""
    key(_inputs(folder), cache=target)


WAYS = {way.__name__: way for way in (servable, python_tarfile, recognise)}


def _inputs(folder: Path) -> ArchiveInputs:
    return ArchiveInputs(servables=(Servable(name="weights", folder=folder),))


if __name__ == "__main__":
    name, folder, target = sys.argv[1:]
    start = time.perf_counter()
    WAYS[name](Path(folder), Path(target))
    seconds = time.perf_counter() - start
    # Not getrusage: its peak includes that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps({"seconds": seconds, "peak_memory_bytes": peak_kib * 1024}))
