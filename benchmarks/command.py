"""What a benchmark of the endpoint does around its measuring: a folder, a clock, the result, the page."""

import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page
from model_packaging.beside import beside

Told = Callable[[str], None]


def main(measured: Callable[[Path, Told], dict[str, Any]], result: Path) -> int:
    """The exit code. Nothing is written when it is interrupted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
            found = measured(
                Path(folder),
                lambda text: print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr),
            )
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    with beside(result) as file:
        file.write((json.dumps(found, indent=2) + "\n").encode())
    page.write()
    print(page.markdown())
    return 0
