"""One round: an endpoint is started, loaded and ended; CPU time is read from its processes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.local import workload
from servable_local.container.launch import EndpointProcess, launch

ROUNDS = 5
CONNECTIONS = 4
WARM_UP_SECONDS = 1.0
SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Round:
    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms_per_request: dict[str, float]
    """By part: "front", "worker", "model server"."""
    ready_after_import_seconds: float


def one_round(archive: Path, variables: dict[str, str]) -> Round:
    with launch(archive, variables) as process:
        _load(process, WARM_UP_SECONDS)
        before = _cpu_seconds(process)
        said = _load(process, SECONDS)
        after = _cpu_seconds(process)
        if said["errors"]:
            raise RuntimeError(f"{said['errors']} of {said['requests']} requests failed")
        return Round(
            requests=said["requests"],
            requests_per_second=said["requests"] / said["seconds"],
            p50_ms=said["latencies_ms"]["p50"],
            p99_ms=said["latencies_ms"]["p99"],
            cpu_ms_per_request={
                part: 1000 * (after[part] - before[part]) / said["requests"] for part in after
            },
            ready_after_import_seconds=process.seconds_after_import,
        )


def _load(process: EndpointProcess, seconds: float) -> dict[str, Any]:
    module = "benchmarks.local.generator"
    command = [sys.executable, "-m", module, process.url, str(CONNECTIONS), str(seconds)]
    ran = subprocess.run(command, input=workload.body(), check=True, stdout=subprocess.PIPE)
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def _cpu_seconds(process: EndpointProcess) -> dict[str, float]:
    """CPU time so far by part, user and system, of all threads."""
    parts = process.parts
    found = {
        "front": (parts.nginx,),
        "worker": parts.workers,
        "model server": parts.model_servers,
    }
    return {
        part: sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids if pid is not None)
        for part, pids in found.items()
        if pids
    }
