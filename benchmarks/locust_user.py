"""Locust's FastHttpUser as its guide shows it, for `python -m locust`; the body is in the variable BODY.

With RATE, 50 users send so many requests per second together, and LATENCIES gets their p50, p90, and p99.
Source: https://docs.locust.io/en/stable/increase-performance.html (2026-11-22)
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import gevent
import numpy as np
from locust import FastHttpUser, constant, constant_throughput, events, task

RATE, USERS = float(os.environ.get("RATE", "0")), 50
took: list[float] = []


class FastUser(FastHttpUser):
    wait_time = constant_throughput(RATE / USERS) if RATE else constant(0)

    def on_start(self) -> None:
        if RATE:
            gevent.sleep(random.uniform(0, USERS / RATE))

    @task
    def ask(self) -> None:
        headers = {"Content-Type": "application/json"}
        self.client.post("/invocations", os.environ["BODY"], headers=headers)


if RATE:
    hooks: Any = events

    @hooks.request.add_listener
    def keep(response_time: float, **_: Any) -> None:
        took.append(response_time)

    @hooks.quitting.add_listener
    def write(**_: Any) -> None:
        percentiles = np.percentile(took, (50, 90, 99)).tolist()
        Path(os.environ["LATENCIES"]).write_text(json.dumps(percentiles), encoding="utf-8")
