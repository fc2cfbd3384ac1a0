"""Rate and punctuality of the load generator, compared with Locust.

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
CLAIMS = False
TEXT = """\
One process sends a row of 256 numbers as JSON to a server that answers at once, beside Locust's
FastHttpUser: 16 users in a closed loop, then 1,500 requests/s in an open loop. A request is late by the
time between the moment at which it was due and the moment at which it was sent. Tests compare the knee that
a load test finds with that of simulated M/M/c queues, which is known exactly.
"""
OURS, LOCUST = "Servable", "Locust"
BOUNDS = {
    f"{OURS} / {LOCUST}, requests/s": (1.5, float("inf")),
    f"{OURS} / {LOCUST}, late, p99": (0.0, 2.0),
}
REPEATS, SECONDS, USERS, LOCUST_USERS, RATE = 5, 5.0, 16, 64, 1500.0
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
    return {
        "table": {
            way: {column: spread(values) for column, values in row.items()}
            for way, row in columns.items()
        },
        "ratios": dict(zip(BOUNDS, ratios, strict=True)),
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


def _main(url: str, seconds: float, users: int, rate: float) -> None:
    import gevent
    from locust import FastHttpUser, constant, constant_throughput, task
    from locust.env import Environment

    late: list[float] = []
    body, period = sys.stdin.read(), users / rate if rate else 0.0

    class Caller(FastHttpUser):
        host = url
        wait_time = constant_throughput(1 / period) if period else constant(0)
        started = 0

        def on_start(self) -> None:
            """Begin one user after the other, so that requests of an open loop are evenly spaced."""
            Caller.started += 1
            gevent.sleep(period * Caller.started / users)
            # constant_throughput counts from here; by default, from when all were made at once.
            self.due = self._cp_last_run = time.perf_counter()

        @task
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
