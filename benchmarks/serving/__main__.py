"""Cost of the handler: `make bench-serving`. Writes result.json and docs/performance.md."""

import sys
from pathlib import Path

from benchmarks import workload
from benchmarks.frame import Log, Result, machine, main
from benchmarks.serving import transports, under_load


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    log("making a model")
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
        "transports": transports.measured(packed, log),
        "waiting": under_load.waiting(ours, log),
        "choosing": under_load.choosing(ours, log),
        "workers": under_load.workers(ours, log),
    }


if __name__ == "__main__":
    sys.exit(main("serving", measure))
