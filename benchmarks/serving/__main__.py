"""What the handler costs: `make bench-serving`. Writes result.json and docs/performance.md."""

import sys
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.command import Told, machine, main
from benchmarks.serving import transports, under_load
from benchmarks.serving.report import RESULT


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    told("making a model")
    packed = transports.archives(folder, workload.model(folder / "model"))
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
        "waiting": under_load.waiting(ours, told),
        "choosing": under_load.choosing(ours, told),
        "workers": under_load.workers(ours, told),
    }


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
