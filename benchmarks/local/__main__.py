"""Cost of the local container and AWS: `make bench-local`. Writes result.json and docs/performance.md."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.cost import kib_of, milliseconds
from benchmarks.frame import Log, Result, in_turn, machine, main
from infra.policy.container import BATCHING_SWITCH
from servable_local.aws.lifecycle import status
from servable_local.container.launch import EndpointProcess, launch

EMPTY_HANDLER = b"def handler(data, context):\n    return b'', 'application/json'\n"
ROUNDS, CONNECTIONS = 5, 4
WARM_UP_SECONDS, SECONDS = 1.0, 5.0


def measure(folder: Path, log: Log) -> Result:
    log("making a model")
    models = {"small": workload.model(folder / "model")}
    plain = workload.pack(folder / "plain.tar.gz", models, {})
    coded = workload.pack(folder / "coded.tar.gz", models, {"inference.py": EMPTY_HANDLER})
    ways: dict[str, tuple[Path, dict[str, str]]] = {
        "without code": (plain, {}),
        "without code, batching": (plain, {BATCHING_SWITCH: "true"}),
        "empty handler": (coded, {}),
    }
    before = machine()
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for number, way in in_turn(ways, ROUNDS):
        run = _round(*ways[way])
        rounds[way].append(run)
        cpu_ms = sum(run["cpu_ms_per_request"].values())
        log(f"round {number + 1} of {ROUNDS}: {way:23} {cpu_ms:5.2f} CPU-ms a request")
    return {
        "machine": before,
        "body_bytes": len(workload.body(workload.JSON, 1)),
        "connections": CONNECTIONS,
        "seconds": SECONDS,
        "rounds": rounds,
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
    memory_mb = kib_of(Path(f"/proc/{aws.pid}/status"), "VmRSS") * 1024 / 1e6
    subprocess.run([*command, "down"], cwd=folder, check=True, capture_output=True)
    return {"seconds": seconds, "memory_mb": memory_mb}


if __name__ == "__main__":
    sys.exit(main("local", measure))
