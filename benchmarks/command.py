"""What a benchmark does around its measuring: computer, clock, turns, a folder, the result, the page."""

import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import page
from benchmarks.report import write

ROOT = Path(__file__).resolve().parents[1]
Told = Callable[[str], None]
Way = TypeVar("Way")


def main(measured: Callable[[Path, Told], dict[str, Any]], result: Path) -> int:
    """The exit code. Nothing is written when it is interrupted."""

    def run(folder: Path) -> None:
        write(result, measured(folder, clock()))

    return framed(run, interrupted="interrupted; nothing was written")


def framed(run: Callable[[Path], None], *, interrupted: str) -> int:
    """Runs it with a folder of its own and writes the page. The exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
            run(Path(folder))
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130
    page.write()
    print(page.markdown())
    return 0


def clock() -> Told:
    """Writes lines to standard error, each with the seconds since now."""
    start = time.monotonic()

    def told(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr, flush=True)

    return told


def machine() -> dict[str, Any]:
    """What it runs on. Ask before the run: afterwards the load average is the benchmark's own."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in cpu if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d"),
    }


def in_turn(ways: Iterable[Way], repeats: int) -> Iterator[tuple[int, Way]]:
    """(repeat, way): each repeat starts with another way, so that none always comes first."""
    order = [*ways]
    for repeat in range(repeats):
        turn = repeat % len(order)
        for way in order[turn:] + order[:turn]:
            yield repeat, way
