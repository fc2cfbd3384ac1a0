"""Locust's FastHttpUser as its guide shows it, in a process of its own: gevent patches it.

    python -m benchmarks.load.fast_http_user URL SECONDS USERS RATE < BODY

Prints what it measured as JSON. RATE: requests per second of all users together, each with Locust's
constant_throughput; empty: a closed loop.
Source: https://docs.locust.io/en/stable/increase-performance.html (2026-11-22)
"""

import locust  # noqa: F401  (first: it patches the process for gevent)

# isort: split
import json
import os
import sys
import time
from typing import Any

import gevent
import numpy as np
from locust import FastHttpUser, constant, constant_throughput, task
from locust.env import Environment

WARM_UP_SECONDS = 1.0


def user_class(url: str, body: str, users: int, period: float, late: list[float]) -> Any:
    """Class of the users. `period`: seconds between two requests of a user; 0: a closed loop."""

    class Caller(FastHttpUser):
        host = url
        wait_time = constant_throughput(1 / period) if period else constant(0)
        started = 0

        def on_start(self) -> None:
            """Begin one user after the other, so that requests of an open loop are evenly spaced."""
            Caller.started += 1
            gevent.sleep(period * Caller.started / users)
            # constant_throughput counts from here; left alone, from when all were made at once.
            self.due = self._cp_last_run = time.perf_counter()

        @task
        def ask(self) -> None:
            if period:
                late.append(time.perf_counter() - self.due)
                self.due += period
            self.client.post("/invocations", body, headers={"Content-Type": "application/json"})

    return Caller


def main(url: str, seconds: str, users: str, rate_rps: str) -> None:
    late: list[float] = []
    period = int(users) / float(rate_rps) if rate_rps else 0.0
    caller = user_class(url, sys.stdin.read(), int(users), period, late)
    environment = Environment(user_classes=[caller])
    environment.create_local_runner().start(int(users), spawn_rate=int(users))
    gevent.sleep(WARM_UP_SECONDS)
    environment.stats.reset_all()
    late.clear()
    began, cpu = time.perf_counter(), time.process_time()
    gevent.sleep(float(seconds))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    total = environment.stats.total
    run: dict[str, Any] = {
        "sent": total.num_requests,
        "failed": total.num_failures,
        "errors": {error.error: error.occurrences for error in environment.stats.errors.values()},
        "rps": (total.num_requests - total.num_failures) / took,
        "p50_ms": total.get_response_time_percentile(0.5),
        "p99_ms": total.get_response_time_percentile(0.99),
        "cpu_share": used / took,
    }
    if late:
        p50, p99 = (1000 * np.percentile(late, (50, 99))).tolist()
        run |= {"send_lag_p50_ms": p50, "send_lag_p99_ms": p99}
    print(json.dumps(run), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
