"""What the handler costs: `make bench-serving`. Writes result.json and docs/performance.md."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import main
from benchmarks.machine import machine
from benchmarks.serving import crowd, transports, workload
from benchmarks.serving.report import RESULT


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
        "slices": transports.SLICES,
        "transports": transports.measured(packed, told),
        "waiting": crowd.waiting(ours, told),
        "choosing": crowd.choosing(ours, told),
        "workers": crowd.workers(ours, told),
    }


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
