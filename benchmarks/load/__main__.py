"""What the load generator can do: `make bench-load`. Writes result.json and docs/performance.md."""

import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.command import Told, machine, main
from benchmarks.load import known_queues
from benchmarks.load.report import RESULT
from benchmarks.load.workload import bodies, null_server, on_core
from servable.load.load_generator import LoadGenerator, Pace
from servable.load.load_target import container
from servable.load.measurement import Step

ROUNDS = 5
USERS = 16
RATE_RPS = 1500.0
PACE = Pace(warm_up_seconds=1.0, least_seconds=8.0, most_seconds=8.0, arrivals="constant")


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    cores: tuple[int | None, int | None] = (None, None)
    if (os.cpu_count() or 1) > 1 and hasattr(os, "sched_setaffinity"):
        first, second, *_ = sorted(os.sched_getaffinity(0))
        cores = (first, second)
    found: dict[str, list[dict[str, Any]]] = {"closed": [], "open": []}
    with null_server(cores[1]) as url, on_core(cores[0]):
        target = container(url)
        with LoadGenerator(target, bodies(), loop="closed") as generator:
            for number in range(ROUNDS):
                for loop, load in (("closed", float(USERS)), ("open", RATE_RPS)):
                    generator.aim(target, bodies(), loop="open" if loop == "open" else "closed")
                    step = generator.step(load, PACE)
                    found[loop].append(_round(step))
                    told(
                        f"round {number + 1} of {ROUNDS}: {loop:6} "
                        f"{step.throughput_rps.value:7,.0f} requests/s, "
                        f"sent late p99 {step.send_lag_p99_ms:.2f} ms, failed {step.failed}"
                    )
    told("the knee of simulated queues")
    return {
        "machine": before,
        "body_bytes": len(bodies()[0].content),
        "seconds": PACE.most_seconds,
        "users": USERS,
        "rate_rps": RATE_RPS,
        "rounds": found,
        "queues": known_queues.measured(),
    }


def _round(step: Step) -> dict[str, Any]:
    return {
        "sent": step.sent,
        "failed": step.failed,
        "errors": step.errors | ({"timeout": step.timeouts} if step.timeouts else {}),
        "rps": step.throughput_rps.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
        "send_lag_p50_ms": step.send_lags.p50_ms,
        "send_lag_p99_ms": step.send_lag_p99_ms,
        "cpu_share": step.generator_cpu_share,
        "cpu_ms_per_request": 1000 * step.generator_cpu_share / step.throughput_rps.value,
    }


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
