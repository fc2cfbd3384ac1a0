"""Locust's FastHttpUser as its guide shows it, for `python -m locust`; the body is in the variable BODY.

With USER_RATE, each user sends so many requests per second, and the file LATENCIES gets p50, p90, and p99.
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

RATE = float(os.environ.get("USER_RATE", "0"))
took: list[float] = []


class FastUser(FastHttpUser):
    wait_time = constant_throughput(RATE) if RATE else constant(0)

    def on_start(self) -> None:
        if RATE:
            gevent.sleep(random.uniform(0, 1 / RATE))

    @task
    def send_row(self) -> None:
        headers = {"Content-Type": "application/json"}
        self.client.post("/invocations", os.environ["BODY"], headers=headers)


def write_percentiles(**_: Any) -> None:
    """Write the percentiles of all requests."""
    percentiles = np.percentile(took, (50, 90, 99)).tolist()
    Path(os.environ["LATENCIES"]).write_text(json.dumps(percentiles), encoding="utf-8")


if RATE:
    hooks: Any = events

    hooks.request.add_listener(lambda response_time, **_: took.append(response_time))
    hooks.quitting.add_listener(write_percentiles)
