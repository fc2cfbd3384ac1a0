"""Accuracy and cost of the load generator: `make bench-load`. Writes result.json and docs/performance.md."""

import os
import sys
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.frame import Log, Result, in_turn, machine, main
from benchmarks.load.generators import locust, ours, wrk, wrk_version
from benchmarks.load.null_server import NullServer, null_server
from benchmarks.load.report import LOCUST, OURS, WRK
from benchmarks.queueing import curve, mmc_highest_rate
from servable.load.knee import knee, saturation
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.objective import Objective
from servable.load.pace import Pace
from servable.load.schedule import Schedule

# One JSON row of 256 numbers: 2 KB.
BODY = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
ROUNDS, USERS = 5, 16
PACE = Pace(warm_up_seconds=1.0, least_seconds=5.0, most_seconds=5.0, arrivals="constant")
# Lognormal delays of the server that writes them down: p99 40 ms.
MEDIAN_MS, SIGMA = 10.0, 0.6
# Requests per second of the open loop, by server; and Locust's users for it: enough that each is
# free again when its next request is due.
RATES = {"null": 1500.0, "known": 400.0}
LOCUST_USERS = 64
# (generator, server, loop); wrk has no open loop.
Run = tuple[str, str, Loop]
LOOPS: dict[Loop, tuple[str, ...]] = {"closed": (OURS, LOCUST, WRK), "open": (OURS, LOCUST)}
RUNS: list[Run] = [
    (generator, server, loop)
    for server in RATES
    for loop, generators in LOOPS.items()
    for generator in generators
]
# The simulated queues.
CALL_MS = 10.0
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
# As many answers as ten seconds of a thousand in a second give; the slowest settles within seconds.
REQUESTS, LEAST_SECONDS = 10_000, 20.0


def measure(folder: Path, log: Log) -> Result:
    before, available = machine(), os.sched_getaffinity(0)
    first, second = sorted(available)[:2] if len(available) > 1 else (None, None)
    version = wrk_version()
    if version is None:
        log(
            "wrk is not installed (Debian: apt-get install wrk); the others are measured without it"
        )
    ways = [way for way in RUNS if version or way[0] != WRK]
    runs = []
    with ExitStack() as stack:
        servers = {
            "null": stack.enter_context(null_server(core=second)),
            "known": stack.enter_context(null_server(MEDIAN_MS, SIGMA, core=second)),
        }
        if first is not None:
            # What is started from here on stays on that core.
            os.sched_setaffinity(0, {first})
            stack.callback(os.sched_setaffinity, 0, available)
        target = container(servers["null"].url)
        generator = stack.enter_context(LoadGenerator(target, [BODY], loop="closed"))
        for number, way in in_turn(ways, ROUNDS):
            run = _run(way, servers[way[1]], generator, folder)
            runs.append(run | {"round": number})
            log(f"round {number + 1} of {ROUNDS}: {', '.join(way)}: {run['rps']:,.0f} requests/s")
    log("the knee of simulated queues")
    return {
        "machine": before,
        "body_bytes": len(BODY.content),
        "seconds": PACE.most_seconds,
        "users": USERS,
        "locust_users": LOCUST_USERS,
        "rates": RATES,
        "median_ms": MEDIAN_MS,
        "sigma": SIGMA,
        "versions": {LOCUST: metadata.version("locust"), WRK: version},
        "runs": runs,
        "queues": [_queue(cores, most_ms, seed) for cores, most_ms in QUEUES for seed in SEEDS],
    }


def _run(way: Run, server: NullServer, generator: LoadGenerator, folder: Path) -> dict[str, Any]:
    name, server_name, loop = way
    rate = RATES[server_name] if loop == "open" else None
    run: dict[str, Any]
    if name == OURS:
        run = ours(generator, server.url, BODY, loop, rate or USERS, PACE)
    elif name == LOCUST:
        run = locust(server.url, BODY, LOCUST_USERS if rate else USERS, rate, PACE.most_seconds)
    else:
        run = wrk(server.url, BODY, USERS, PACE.most_seconds, folder)
    run["cpu_ms_per_request"] = 1000 * run["cpu_share"] / run["rps"]
    if server_name == "known":
        run["known"] = server.delays()
    return {"generator": name, "server": server_name, "loop": loop} | run


def _queue(cores: int, most_ms: float, seed: int) -> dict[str, Any]:
    """Compare the knee of a simulated queue with the known answer."""
    service_rate = 1000 / CALL_MS
    objective = Objective(most_ms=most_ms)
    schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
    seconds = max(LEAST_SECONDS, REQUESTS / service_rate / cores)
    measured = curve(cores, CALL_MS, schedule, seconds=seconds, seed=100 + seed)
    at, full = knee(measured, objective), saturation(measured)
    if at is None or full is None:
        raise RuntimeError(f"no knee of {cores} cores, seed {seed}")
    return {
        "cores": cores,
        "p99_ms": most_ms,
        "seed": seed,
        "steps": len(measured.steps),
        "known_rps": mmc_highest_rate(99, most_ms, service_rate=service_rate, servers=cores),
        "knee_rps": at.rps.value,
        "low_rps": at.rps.low,
        "high_rps": at.rps.high,
        "full_rps": full.rps.value,
        "known_full_rps": cores * service_rate,
    }


if __name__ == "__main__":
    sys.exit(main("load", measure))
