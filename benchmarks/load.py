"""Rate and punctuality of the load generator, compared with Locust."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.endpoints import JSON, make_body, start_null_server
from benchmarks.frame import Log, Result, divide, repeat_ways, spread
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, Pace, container

TITLE = "Load"
CLAIMS = False
TEXT = """\
One process sends a row of 256 numbers as JSON to a server that answers at once, beside Locust's
FastHttpUser: 16 users in a closed loop. In an open loop of 1,500 requests/s, a request is late if it's sent
after the moment at which it was due; the second ratio compares that with the latency of the closed loop.
Tests compare the knee that a load test finds with that of simulated M/M/c queues, which is known exactly.
"""
OURS, LOCUST = "Servable", "Locust"
BOUNDS = {
    f"{OURS} / {LOCUST}, requests/s": (1.5, float("inf")),
    "late, p99 / time of a request in the closed loop": (0.0, 10.0),
}
REPEATS, SECONDS, USERS, RATE = 5, 5, 16, 1500.0
RPS, LATE = "requests/s, closed loop", "late, p99, ms, open loop"


def measure(_: Path, log: Log) -> Result:
    """Run both generators in turn."""
    body = make_body(JSON, 1)
    with start_null_server() as url:
        ways = {OURS: partial(run_ours, url, body), LOCUST: partial(run_locust, url, body)}
        runs = repeat_ways(ways, REPEATS, log)
    rates = {way: [run[RPS] for run in of_way] for way, of_way in runs.items()}
    late = [run[LATE] for run in runs[OURS]]
    request_ms = [1000 * USERS / rate for rate in rates[OURS]]
    table = {way: {RPS: spread(values)} for way, values in rates.items()}
    table[OURS][LATE] = spread(late)
    ratios = [divide(rates[OURS], rates[LOCUST]), divide(late, request_ms)]
    return {"table": table, "ratios": dict(zip(BOUNDS, ratios, strict=True))}


def run_ours(url: str, body: bytes) -> dict[str, float]:
    """Run both loops with Servable's generator. Raises RuntimeError if a request fails."""
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
    return {RPS: closed.throughput_rps.value, LATE: opened.send_lags.p99_ms}


def run_locust(url: str, body: bytes) -> dict[str, float]:
    """Run the closed loop with Locust. Raises CalledProcessError if a request fails."""
    file = str(Path(__file__).with_name("locust_user.py"))
    command = [sys.executable, "-m", "locust", "--locustfile", file, "--host", url, "--headless"]
    command += ["--users", str(USERS), "--spawn-rate", str(USERS), "--run-time", f"{SECONDS}s"]
    environment = {**os.environ, "BODY": body.decode()}
    ran = subprocess.run([*command, "--json"], env=environment, check=True, capture_output=True)
    (total,) = json.loads(ran.stdout)
    return {RPS: total["num_requests"] / (total["last_request_timestamp"] - total["start_time"])}
