"""What the local container and AWS cost: `make bench-local`. Writes result.json and docs/performance.md."""

import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.command import Told, in_turn, machine, main
from benchmarks.cost import milliseconds
from benchmarks.local.large import DISK_TIMES, SIZES, deployed, started
from benchmarks.local.report import RESULT
from infra.policy.container import BATCHING_SWITCH
from servable_local.container.launch import EndpointProcess, launch

EMPTY_HANDLER = b"def handler(data, context):\n    return b'', 'application/json'\n"
ROUNDS = 5
CONNECTIONS = 4
WARM_UP_SECONDS = 1.0
SECONDS = 5.0


def measured(folder: Path, told: Told) -> dict[str, Any]:
    told("making a model")
    models = {"small": workload.model(folder / "model")}
    plain = workload.pack(folder / "plain.tar.gz", models, {})
    coded = workload.pack(folder / "coded.tar.gz", models, {"inference.py": EMPTY_HANDLER})
    ways: dict[str, tuple[Path, dict[str, str]]] = {
        "without code": (plain, {}),
        "without code, batching": (plain, {BATCHING_SWITCH: "true"}),
        "empty handler": (coded, {}),
    }
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    before = machine()
    for number, way in in_turn(ways, ROUNDS):
        one = _round(*ways[way])
        rounds[way].append(one)
        told(
            f"round {number + 1} of {ROUNDS}: {way:23} "
            f"{sum(one['cpu_ms_per_request'].values()):5.2f} CPU-ms, "
            f"{one['requests_per_second']:5.0f} requests/s"
        )
    return {
        "machine": before,
        "body_bytes": len(workload.body(workload.JSON, 1)),
        "connections": CONNECTIONS,
        "seconds": SECONDS,
        "rounds": rounds,
        "starts": [started(_folder(folder, f"start-{number}")) for number in range(ROUNDS)],
        "large": [
            deployed(_folder(folder, f"large-{size}"), size, told)
            for size in SIZES
            if _fits(size, folder, told)
        ],
    }


def _folder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def _fits(gigabytes: float, folder: Path, told: Told) -> bool:
    """Whether the disk has room. What an earlier size took is removed."""
    for earlier in folder.glob("large-*"):
        shutil.rmtree(earlier)
    free = shutil.disk_usage(folder).free / 1e9
    needed = gigabytes * DISK_TIMES
    if free < needed:
        told(
            f"{gigabytes:g} GB: left out, the disk has {free:.0f} GB free and {needed:.0f} are needed"
        )
    return free >= needed


def _round(archive: Path, variables: dict[str, str]) -> dict[str, Any]:
    """An endpoint is started, loaded and ended; CPU time is read from its processes."""
    asking: dict[str, Any] = {"callers": CONNECTIONS, "content_type": workload.JSON}
    body = workload.body(workload.JSON, 1)
    with launch(archive, variables) as process:
        load(process.url, body, seconds=WARM_UP_SECONDS, **asking)
        before = _cpu_ms(process)
        found = load(process.url, body, seconds=SECONDS, **asking)
        after = _cpu_ms(process)
        if found.failed:
            raise RuntimeError(f"{found.failed} of {found.requests} requests failed")
        return {
            **vars(found),
            "cpu_ms_per_request": {
                part: (after[part] - before[part]) / found.requests for part in after
            },
            "ready_after_import_seconds": process.seconds_after_import,
        }


def _cpu_ms(process: EndpointProcess) -> dict[str, float]:
    """So far, by part; without code there is no worker."""
    parts = process.parts
    pids = {"front": (parts.nginx,), "worker": parts.workers, "model server": parts.model_servers}
    return {part: milliseconds(of) for part, of in pids.items() if of}


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
