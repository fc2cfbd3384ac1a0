"""A search of a made-up surface, as a program that may be killed.

    python -m tests.servable.tune.searching STUDY LOG SECONDS TRIALS

Every measurement takes SECONDS and leaves a line in LOG when it begins and when it is done.
"""

import json
import math
import sys
import time
import zlib
from pathlib import Path

from servable.tune.search.search import Search, SearchResult
from servable.tune.search.space import Budget, Measurement, Point, Space

GRID = {
    "tfs_processes": (1, 2, 4, 8),
    "gunicorn_workers": (1, 4, 8, 16),
    "inter_op_threads": (1, 2, 4, 8),
    "onednn": (False, True),
}


def value(point: Point) -> float:
    """Best at 4 servers, 8 workers, 2 threads; with noise that the point itself draws."""
    off = abs(math.log2(int(point["tfs_processes"] or 1)) - 2)
    off += abs(math.log2(int(point["gunicorn_workers"] or 1)) - 3) / 2
    off += abs(math.log2(int(point["inter_op_threads"] or 1)) - 1) / 3
    drawn = zlib.crc32(repr(sorted(point.items())).encode())
    return 200 * math.exp(-off / 3) * (1 + (drawn % 100 - 50) / 1000)


def search(study: Path | None, log: Path | None, seconds: float, trials: int) -> SearchResult:
    def measure(point: Point) -> Measurement:
        _say(log, {"begins": dict(point)})
        time.sleep(seconds)
        _say(log, {"done": dict(point)})
        return Measurement(value=value(point))

    start = {"tfs_processes": 1, "gunicorn_workers": 1, "inter_op_threads": 1, "onednn": True}
    return Search(Space(GRID), [start], file=study).run(measure, Budget(trials=trials))


def _say(log: Path | None, what: dict[str, object]) -> None:
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    search(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
