"""What the container's double costs: `make bench-local`. Writes result.json and docs/performance.md."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import main
from benchmarks.local import run, workload
from benchmarks.local.report import RESULT
from benchmarks.machine import machine
from infra.policy.container import BATCHING_SWITCH

BATCHING = {BATCHING_SWITCH: "true"}


def measured(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    told("making a model")
    model = folder / "model"
    # In a process of its own: this one stays without TensorFlow's threads.
    module = "benchmarks.local.workload"
    subprocess.run([sys.executable, "-m", module, str(model)], check=True, capture_output=True)
    plain = workload.pack(folder / "plain.tar.gz", model, None)
    coded = workload.pack(folder / "coded.tar.gz", model, workload.EMPTY_HANDLER)
    ways = {
        "without code": (plain, {}),
        "without code, batching": (plain, BATCHING),
        "empty handler": (coded, {}),
    }
    found: dict[str, list[run.Round]] = {way: [] for way in ways}
    before = machine()
    for number in range(run.ROUNDS):
        # Each round starts with another way, so that none always comes first.
        turn = number % len(ways)
        for way in [*ways][turn:] + [*ways][:turn]:
            one = run.one_round(*ways[way])
            found[way].append(one)
            cpu = sum(one.cpu_ms_per_request.values())
            told(
                f"round {number + 1} of {run.ROUNDS}: {way:23} {cpu:5.2f} CPU-ms, "
                f"{one.requests_per_second:5.0f} requests/s"
            )
    return {
        "machine": before,
        "body_bytes": len(workload.body()),
        "connections": run.CONNECTIONS,
        "seconds": run.SECONDS,
        "rounds": {way: [dataclasses.asdict(one) for one in of] for way, of in found.items()},
    }


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
