"""What a benchmark of the endpoint does around its measuring: a folder, a clock, the result, the page."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.result import write

Told = Callable[[str], None]


def main(measured: Callable[[Path, Told], dict[str, Any]], result: Path) -> int:
    """The exit code. Nothing is written when it is interrupted."""
    start = time.monotonic()

    def told(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr)

    def run(folder: Path) -> None:
        write(result, measured(folder, told))

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
