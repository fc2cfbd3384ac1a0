"""Many callers: a model of 50 ms, one slow model server among four, four workers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.callers import EndpointCaller, load
from benchmarks.cost import pss_mb
from benchmarks.frame import Log
from infra.policy.container import variable_of
from servable_local.container.launch import EndpointProcess, launch

SECONDS = 6.0
MODEL_MS = 50.0
BODY, FORM = workload.body(workload.PROTOBUF, 1), workload.PROTOBUF


def waiting(archive: Path, log: Log) -> list[dict[str, float]]:
    """Requests per second through one worker whose model takes 50 ms."""
    rows = []
    with launch(archive, {}) as process:
        process.faults.slow(MODEL_MS)
        for repeat in range(3):
            run = load(process.url, BODY, callers=16, seconds=SECONDS, content_type=FORM)
            rows.append({"through_per_second": run.requests_per_second, "failed": run.failed})
            log(f"50 ms, 16 callers, {repeat + 1} of 3: {rows[-1]}")
    return rows


def choosing(archive: Path, log: Log) -> list[dict[str, Any]]:
    """Latencies by the way to choose among four model servers, of which one is slower by 50 ms."""
    rows = []
    for workers, callers in ((1, 4), (1, 16), (4, 16)):
        for way in ("measured", "random", "two choices", "least busy"):
            variables = {
                variable_of("tfs_processes"): "4",
                variable_of("gunicorn_workers"): str(workers),
                "WAY_TO_CHOOSE": way,
            }
            with launch(archive, variables) as process:
                process.faults.slow(MODEL_MS, server=3)
                load(process.url, BODY, callers=callers, seconds=1, content_type=FORM)
                before = _counts(process)
                run = load(process.url, BODY, callers=callers, seconds=SECONDS, content_type=FORM)
                counts = _counts(process) - before
                parts = process.parts
                memory_mb = pss_mb([parts.gunicorn, *parts.workers])
            row: dict[str, Any] = {"way": way, "workers": workers, "callers": callers, **vars(run)}
            row["pss_mb"] = memory_mb
            if workers == 1:
                # Each worker has counts of its own.
                row["slow_share"] = counts["3"] / counts.total()
            rows.append(row)
            log(f"{way}, {workers} workers, {callers} callers: p99 {run.p99_ms:.1f} ms")
    return rows


def _counts(process: EndpointProcess) -> Counter[str]:
    """Requests that each model server got from the worker that answers."""
    return Counter(json.loads(EndpointCaller(process.url).ask(b"", FORM, "counts")))
