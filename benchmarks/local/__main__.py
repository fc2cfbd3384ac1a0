"""Cost of the local container and AWS: `make bench-local`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.cost import milliseconds
from benchmarks.frame import Log, Result, machine, main, rounds
from benchmarks.tables import Bound, table
from infra.policy.container import BATCHING_SWITCH
from servable_local.aws.lifecycle import status
from servable_local.container.launch import EndpointProcess, launch

EMPTY_HANDLER = b"def handler(data, context):\n    return b'', 'application/json'\n"
ROUNDS, CONNECTIONS = 5, 4
# What is wanted of each way, in CPU-ms per request. Source: the requirements of this project.
MOST_CPU_MS = {"without code": 1.2, "empty handler": 1.5}
WARM_UP_SECONDS, SECONDS = 1.0, 5.0


def measure(folder: Path, log: Log) -> Result:
    log("making a model")
    models = {"small": workload.model(folder / "model")}
    plain = workload.pack(folder / "plain.tar.gz", models, {})
    coded = workload.pack(folder / "coded.tar.gz", models, {"inference.py": EMPTY_HANDLER})
    ways = {
        "without code": partial(_round, plain, {}),
        "without code, batching": partial(_round, plain, {BATCHING_SWITCH: "true"}),
        "empty handler": partial(_round, coded, {}),
    }
    before = machine()
    return {
        "machine": before,
        "body_bytes": len(workload.body(workload.JSON, 1)),
        "connections": CONNECTIONS,
        "seconds": SECONDS,
        "rounds": rounds(ways, ROUNDS, log),
        "starts": [_started(folder / f"start-{number}") for number in range(ROUNDS)],
    }


def _round(archive: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Start, load and end an endpoint; CPU time is read from its processes."""
    options: dict[str, Any] = {"callers": CONNECTIONS, "content_type": workload.JSON}
    body = workload.body(workload.JSON, 1)
    with launch(archive, variables) as process:
        load(process.url, body, seconds=WARM_UP_SECONDS, **options)
        before = _cpu_ms(process)
        run = load(process.url, body, seconds=SECONDS, **options)
        after = _cpu_ms(process)
        if run.failed:
            raise RuntimeError(f"{run.failed} of {run.requests} requests failed")
        cpu_ms = {part: (after[part] - before[part]) / run.requests for part in after}
        ready = process.seconds_after_import
    return {**vars(run), "cpu_ms_per_request": cpu_ms, "ready_after_import_seconds": ready}


def _cpu_ms(process: EndpointProcess) -> dict[str, float]:
    """CPU time so far, by part; without code there is no worker."""
    parts = process.parts
    pids = {"front": (parts.nginx,), "worker": parts.workers, "model server": parts.model_servers}
    return {part: milliseconds(of_part) for part, of_part in pids.items() if of_part}


def _started(folder: Path) -> dict[str, float]:
    """Seconds of `servable-local up`, a process of its own, and the memory of what it started."""
    folder.mkdir()
    code = "import sys; from servable_local.aws.command import main; sys.exit(main())"
    command, begun = [sys.executable, "-c", code], time.perf_counter()
    subprocess.run([*command, "up"], cwd=folder, check=True, capture_output=True)
    seconds = time.perf_counter() - begun
    aws = status(folder=folder / ".servable")
    assert aws is not None
    memory_mb = psutil.Process(aws.pid).memory_info().rss / 1e6
    subprocess.run([*command, "down"], cwd=folder, check=True, capture_output=True)
    return {"seconds": seconds, "memory_mb": memory_mb}


def fields(result: Result) -> dict[str, Any]:
    head = ("", "nginx stand-in", "worker", "model server", "together, CPU-ms", "requests/s")
    rows = []
    for way, runs in result["rounds"].items():
        cells = []
        for part in ("front", "worker", "model server"):
            costs = [run["cpu_ms_per_request"].get(part) for run in runs]
            cells.append("" if None in costs else f"{median(costs):.2f}")
        cells.append(f"{median(_together(runs)):.2f}")
        for key, form in (("requests_per_second", ",.0f"), ("p50_ms", ".1f"), ("p99_ms", ".1f")):
            cells.append(f"{median(run[key] for run in runs):{form}}")
        rows.append((way, *cells))
    return {"starts": len(runs), "ways": table((*head, "p50, ms", "p99, ms"), rows)}


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    ways = result["rounds"]
    for way, most in MOST_CPU_MS.items():
        yield Bound(label=f"CPU-ms per request, {way}", values=_together(ways[way]), most=most)
    ready = [run["ready_after_import_seconds"] for runs in ways.values() for run in runs]
    yield Bound(label="seconds until ready, after TensorFlow is imported", values=ready, most=6.0)
    if starts := result.get("starts"):
        seconds, memory = ([run[key] for run in starts] for key in ("seconds", "memory_mb"))
        # From its call to its return, when requests are answered.
        yield Bound(label="seconds of `servable-local up`", values=seconds, most=1.0)
        label = "memory of the local AWS after it"
        yield Bound(label=label, values=memory, most=150.0, form=".0f", unit=" MB")


def _together(runs: list[dict[str, Any]]) -> list[float]:
    return [sum(run["cpu_ms_per_request"].values()) for run in runs]


if __name__ == "__main__":
    sys.exit(main("local", measure))
