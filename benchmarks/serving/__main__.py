"""What the handler costs: `make bench-serving`. Writes result.json and docs/performance.md."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.machine import machine
from benchmarks.serving import crowd, transports, workload
from benchmarks.serving.report import RESULT
from model_packaging.beside import beside


def measured(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    before = machine()
    told("making a model")
    model = folder / "model"
    # In a process of its own: this one stays without TensorFlow's threads.
    module = "benchmarks.serving.workload"
    subprocess.run([sys.executable, "-m", module, str(model)], check=True, capture_output=True)
    packed = transports.archives(folder, model)
    ours = packed["ours.py"]
    return {
        "machine": before,
        "body_bytes": {
            form: [len(workload.body(form, count)) for count in workload.ROWS]
            for form in (workload.JSON, workload.NPY, workload.PROTOBUF)
        },
        "requests": list(transports.REQUESTS.values()),
        "transports": transports.measured(packed, told),
        "waiting": crowd.waiting(ours, told),
        "choosing": crowd.choosing(ours, told),
        "workers": crowd.workers(ours, told),
    }


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
            result = measured(
                Path(folder),
                lambda text: print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr),
            )
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    with beside(RESULT) as file:
        file.write((json.dumps(result, indent=1) + "\n").encode())
    page.write()
    print(page.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
