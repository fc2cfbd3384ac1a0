"""What the load generator can do: `make bench-load`. Writes result.json and docs/performance.md."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.command import Told, machine, main
from benchmarks.load.report import RESULT
from benchmarks.queueing.known import mmc_highest_rate
from benchmarks.queueing.measured import curve
from benchmarks.queueing.system import System, Work
from servable.load.knee import knee, saturation
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import LoadStep
from servable.load.pace import Pace
from servable.load.schedule import Schedule
from servable.tune.objective import Objective

# One JSON row of 256 numbers: 2 KB.
BODY = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
ROUNDS = 5
USERS = 16
RATE_RPS = 1500.0
PACE = Pace(warm_up_seconds=1.0, least_seconds=8.0, most_seconds=8.0, arrivals="constant")
# The simulated queues.
CALL_MS = 10.0
SERVICE_RATE = 1000 / CALL_MS
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
# As many answers as ten seconds of a thousand in a second give.
REQUESTS = 10_000
# The slowest of them settles within seconds.
LEAST_SECONDS = 20.0


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    cores: tuple[int | None, int | None] = (None, None)
    if (os.cpu_count() or 1) > 1 and hasattr(os, "sched_setaffinity"):
        first, second, *_ = sorted(os.sched_getaffinity(0))
        cores = (first, second)
    found: dict[str, list[dict[str, Any]]] = {"closed": [], "open": []}
    with _null_server(cores[1]) as url, _on_core(cores[0]):
        target = container(url)
        with LoadGenerator(target, [BODY], loop="closed") as generator:
            for number in range(ROUNDS):
                for loop, load in (("closed", float(USERS)), ("open", RATE_RPS)):
                    generator.aim(target, [BODY], loop="open" if loop == "open" else "closed")
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
        "body_bytes": len(BODY.content),
        "seconds": PACE.most_seconds,
        "users": USERS,
        "rate_rps": RATE_RPS,
        "rounds": found,
        "queues": _queues(),
    }


def _round(step: LoadStep) -> dict[str, Any]:
    return {
        "sent": step.sent,
        "failed": step.failed,
        "errors": step.errors | ({"timeout": step.timeouts} if step.timeouts else {}),
        "rps": step.throughput_rps.value,
        "send_lag_p50_ms": step.send_lags.p50_ms,
        "send_lag_p99_ms": step.send_lag_p99_ms,
        "cpu_share": step.generator_cpu_share,
        "cpu_ms_per_request": 1000 * step.generator_cpu_share / step.throughput_rps.value,
    }


@contextmanager
def _null_server(core: int | None) -> Iterator[str]:
    """Its address. `core` None: wherever there is room."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.null_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """What is started in the block stays on that core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _queues() -> list[dict[str, Any]]:
    """How near the knee is to the known answer, on simulated queues."""
    found = []
    for cores, most_ms in QUEUES:
        system = System(cores=cores, workers=10**9, calls_at_once=cores, work=Work(call_ms=CALL_MS))
        objective = Objective(most_ms=most_ms)
        truth = mmc_highest_rate(99, most_ms, service_rate=SERVICE_RATE, servers=cores)
        seconds = max(LEAST_SECONDS, REQUESTS / SERVICE_RATE / cores)
        for seed in SEEDS:
            schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
            one = curve(system, schedule, seconds=seconds, seed=100 + seed)
            at, full = knee(one, objective), saturation(one)
            if at is None or full is None:
                raise RuntimeError(f"no knee of {cores} cores, seed {seed}")
            found.append(
                {
                    "cores": cores,
                    "p99_ms": most_ms,
                    "seed": seed,
                    "steps": len(one.steps),
                    "known_rps": truth,
                    "knee_rps": at.rps.value,
                    "low_rps": at.rps.low,
                    "high_rps": at.rps.high,
                    "full_rps": full.rps.value,
                    "known_full_rps": cores * SERVICE_RATE,
                }
            )
    return found


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
