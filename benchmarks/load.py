"""Rate and punctuality of the load generator, compared with Locust, and the accuracy of its knee.

    python -m benchmarks.load URL SECONDS USERS RATE < BODY

runs Locust in a process of its own, because gevent patches it. RATE 0 is a closed loop.
Source: https://docs.locust.io/en/stable/increase-performance.html (2026-11-22)
"""

if __name__ == "__main__":
    import locust  # noqa: F401  (first: it patches the process for gevent)

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.endpoints import JSON, make_body
from benchmarks.frame import Log, Result, divide, repeat_ways, spread
from benchmarks.null_server import start_null_server

TITLE = "Load"
TEXT = """\
One process sends a row of 256 numbers as JSON to a server that answers at once, beside Locust's FastHttpUser: 16
users in a closed loop, then 1,500 requests/s in an open loop. A request is late by the time between the moment
at which it was due and the moment at which it was sent. The knee and saturation that a load test finds are
compared with those of M/M/c queues, which are known exactly (simulated, no endpoint).
"""
OURS, LOCUST = "Servable", "Locust"
KNEE, FULL = "knee / known knee, median of 25", "saturation / known saturation, median of 25"
BOUNDS = {
    f"{OURS} / {LOCUST}, requests/s": (1.5, float("inf")),
    f"{OURS} / {LOCUST}, late, p99": (0.0, 2.0),
    KNEE: (0.95, 1.05),
    FULL: (0.95, 1.05),
}
REPEATS, SECONDS, USERS, LOCUST_USERS, RATE = 5, 5.0, 16, 64, 1500.0
CALL_MS = 10.0
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
RPS, LATE = "requests/s, closed loop", "late, p99, ms, open loop"


def measure(_: Path, log: Log) -> Result:
    """Run both generators in turn, then simulated load tests."""
    body = make_body(JSON, 1)
    with start_null_server() as url:
        ways = {OURS: partial(run_ours, url, body), LOCUST: partial(run_locust, url, body)}
        runs = repeat_ways(ways, REPEATS, log)
    columns = {
        way: {column: [run[column] for run in of_way] for column in (RPS, LATE)}
        for way, of_way in runs.items()
    }
    ratios = [divide(columns[OURS][column], columns[LOCUST][column]) for column in (RPS, LATE)]
    knees, full = zip(
        *(compare_knee(*queue, seed) for queue in QUEUES for seed in SEEDS), strict=True
    )
    return {
        "table": {
            way: {column: spread(values) for column, values in row.items()}
            for way, row in columns.items()
        },
        "ratios": dict(zip(BOUNDS, [*ratios, spread(knees), spread(full)], strict=True)),
    }


def run_ours(url: str, body: bytes) -> dict[str, float]:
    """Run both loops with Servable's generator. Raises RuntimeError if a request fails."""
    from servable.load.load_generator import LoadGenerator
    from servable.load.load_target import Body, container
    from servable.load.pace import Pace

    bodies = [Body(content=body, content_type=JSON)]
    pace = Pace(
        warm_up_seconds=1.0, least_seconds=SECONDS, most_seconds=SECONDS, arrivals="constant"
    )
    with LoadGenerator(container(url), bodies, loop="closed") as generator:
        closed = generator.step(USERS, pace)
        generator.aim(container(url), bodies, loop="open")
        opened = generator.step(RATE, pace)
    if closed.failed or opened.failed:
        raise RuntimeError(f"requests failed: {closed.errors} {opened.errors}")
    return {RPS: closed.throughput_rps.value, LATE: opened.send_lag_p99_ms}


def run_locust(url: str, body: bytes) -> dict[str, float]:
    """Run both loops with Locust."""
    found: dict[str, float] = {}
    for users, rate in ((USERS, 0.0), (LOCUST_USERS, RATE)):
        command = [
            sys.executable,
            "-m",
            "benchmarks.load",
            url,
            str(SECONDS),
            str(users),
            str(rate),
        ]
        run = json.loads(subprocess.check_output(command, input=body))
        found |= {LATE: run["late_p99_ms"]} if rate else {RPS: run["rps"]}
    return found


def compare_knee(cores: int, most_ms: float, seed: int) -> tuple[float, float]:
    """Return the knee and the saturation of a simulated queue, each divided by the known one."""
    from servable.load.knee import knee, saturation
    from servable.load.objective import Objective
    from servable.load.schedule import Schedule
    from tests.servable.tune.queueing import curve, mmc_highest_rate

    service_rate, objective = 1000 / CALL_MS, Objective(most_ms=most_ms)
    schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
    seconds = max(20.0, 10_000 / service_rate / cores)
    measured = curve(cores, CALL_MS, schedule, seconds=seconds, seed=100 + seed)
    at, full = knee(measured, objective), saturation(measured)
    if at is None or full is None:
        raise RuntimeError(f"no knee of {cores} cores, seed {seed}")
    known = mmc_highest_rate(99, most_ms, service_rate=service_rate, servers=cores)
    return at.rps.value / known, full.rps.value / cores / service_rate


def _main(url: str, seconds: float, users: int, rate: float) -> None:
    import gevent
    from locust import FastHttpUser, constant, constant_throughput, task
    from locust.env import Environment

    late: list[float] = []
    body, period = sys.stdin.read(), users / rate if rate else 0.0

    class Caller(FastHttpUser):  # type: ignore[misc]
        host = url
        wait_time = constant_throughput(1 / period) if period else constant(0)
        started = 0

        def on_start(self) -> None:
            """Begin one user after the other, so that requests of an open loop are evenly spaced."""
            Caller.started += 1
            gevent.sleep(period * Caller.started / users)
            # constant_throughput counts from here; by default, from when all were made at once.
            self.due = self._cp_last_run = time.perf_counter()

        @task  # type: ignore[untyped-decorator]
        def ask(self) -> None:
            late.append(time.perf_counter() - self.due)
            self.due += period
            self.client.post("/invocations", body, headers={"Content-Type": JSON})

    environment = Environment(user_classes=[Caller])
    environment.create_local_runner().start(users, spawn_rate=users)
    gevent.sleep(1.0)
    environment.stats.reset_all()
    late.clear()
    start = time.perf_counter()
    gevent.sleep(seconds)
    took, total = time.perf_counter() - start, environment.stats.total
    if total.num_failures:
        raise RuntimeError(f"{total.num_failures} requests failed")
    found: dict[str, Any] = {"rps": total.num_requests / took}
    print(json.dumps(found | {"late_p99_ms": 1000 * float(np.percentile(late, 99))}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
