"""Rate of the load generator and correctness of its percentiles, compared with other generators."""

import http.client
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.endpoints import JSON, encode_rows
from benchmarks.frame import Log, Result, compute_spread, divide, measure_in_turn
from benchmarks.null_server import KINDS, PERCENTILES, start_null_server
from servable.load.processes import LoadGenerator
from servable.measured.measurement import Body, Pace, build_container_target

TITLE = "Load"
CLAIMS = False
TEXT = """\
One process sends a row of 256 numbers as JSON to a server that responds at once: 16 users in a closed loop.
In an open loop of 150 requests/s, a server that knows its own delays tells the true p50, p90, and p99: it
holds all requests for 100 ms every two seconds (stalls), serves one at a time for 4 ms (M/D/1), or delays
70 % by 5 ms and 30 % by 40 ms (two peaks). An error of 1 is 3 % of the truth or 1 ms, whichever is larger; a
cell shows the largest error of the three percentiles, over three seeds. wrk has a closed loop only, and
MLPerf's loadgen sends through a client of the benchmark, in an open loop only.
Tests compare the knee that a load test finds with that of simulated M/M/c queues, which is known exactly.
"""
OURS, LOCUST, WRK, LOADGEN = "Servable", "Locust's FastHttpUser", "wrk", "MLPerf's loadgen"
RPS = "requests/s, closed loop"
BOUNDS = {f"{OURS} / {LOCUST}, requests/s": (0.9, float("inf"))} | {
    f"{OURS}, error, {kind}": (0.0, 1.0) for kind in KINDS
}
REPEATS, SECONDS, USERS, RATE, SEEDS = 5, 5, 16, 150, 3
OPEN_USERS, OPEN_SECONDS = 50, 10


def measure(folder: Path, log: Log) -> Result:
    """Run all generators in turn."""
    body = encode_rows(JSON, 1)
    with start_null_server() as (url, _):
        ways = {OURS: partial(run_ours, url, body), LOCUST: partial(run_locust, url, body)}
        if shutil.which("wrk"):
            ways[WRK] = partial(run_wrk, url, body, folder)
        rates = measure_in_turn(ways, REPEATS, log)
    table = {way: {RPS: compute_spread(values)} for way, values in rates.items()}
    ratios = [divide(rates[OURS], rates[LOCUST])]
    openings: dict[str, Callable[[str, bytes, int], list[float]]] = {
        OURS: run_open_loop_ours,
        LOCUST: partial(run_open_loop_locust, folder),
    }
    if find_spec("mlperf_loadgen"):
        openings[LOADGEN] = partial(run_open_loop_loadgen, folder)
    for kind in KINDS:
        for way, run in openings.items():
            errors = []  # the largest of each seed, as a multiple of 3 % of the truth or 1 ms
            for seed in range(SEEDS):
                with start_null_server(kind, str(seed)) as (url, end):
                    found, true = run(url, body, seed), end()
                pairs = zip(found, true, strict=True)
                errors.append(max(abs(a - b) / max(1.0, 0.03 * b) for a, b in pairs))
                log(f"{kind}, {way}: {found}, true {true}")
            table.setdefault(way, {})[f"error, {kind}"] = compute_spread(errors)
            if way == OURS:
                ratios.append(compute_spread([max(errors)]))
    return {"table": table, "ratios": dict(zip(BOUNDS, ratios, strict=True))}


def run_ours(url: str, body: bytes) -> float:
    """Run the closed loop with Servable's generator. Raises RuntimeError if a request fails."""
    bodies = [Body(content=body, content_type=JSON)]
    with LoadGenerator(build_container_target(url), bodies, loop="closed") as generator:
        pace = Pace(warm_up_seconds=1.0, least_seconds=SECONDS, most_seconds=SECONDS)
        step = generator.run_step(USERS, pace)
    if step.failure_count:
        raise RuntimeError(f"requests failed: {step.errors}")
    return step.throughput_rps.value


def run_open_loop_ours(url: str, body: bytes, seed: int) -> list[float]:
    """Run the open loop with Servable's generator."""
    bodies = [Body(content=body, content_type=JSON)]
    with LoadGenerator(build_container_target(url), bodies, loop="open") as generator:
        # Every request counts, as on the server.
        seconds = OPEN_SECONDS
        pace = Pace(warm_up_seconds=0.0, least_seconds=seconds, most_seconds=seconds)
        step = generator.run_step(RATE, pace)
    return [step.latencies.compute_percentile_ms(percent) for percent in PERCENTILES]


def run_locust_command(url: str, users: int, seconds: int, **variables: str) -> bytes:
    """Run Locust, and return what it prints. Raises CalledProcessError if a request fails."""
    file = str(Path(__file__).with_name("locust_user.py"))
    command = [sys.executable, "-m", "locust", "--locustfile", file, "--host", url, "--headless"]
    command += ["--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds}s"]
    environment = {**os.environ, **variables}
    return subprocess.run(
        [*command, "--json"], env=environment, check=True, capture_output=True
    ).stdout


def run_locust(url: str, body: bytes) -> float:
    """Run the closed loop with Locust."""
    (total,) = json.loads(run_locust_command(url, USERS, SECONDS, BODY=body.decode()))
    seconds = total["last_request_timestamp"] - total["start_time"]
    return float(total["num_requests"] / seconds)


def run_open_loop_locust(folder: Path, url: str, body: bytes, seed: int) -> list[float]:
    """Run users with a constant throughput, Locust's way to a rate."""
    file = folder / "latencies.json"
    each = {"BODY": body.decode(), "USER_RATE": str(RATE / OPEN_USERS)}
    variables = each | {"LATENCIES": str(file)}
    run_locust_command(url, OPEN_USERS, OPEN_SECONDS, **variables)
    found: list[float] = json.loads(file.read_bytes())
    return found


def run_wrk(url: str, body: bytes, folder: Path) -> float:
    """Run the closed loop with wrk, in one thread."""
    script = folder / "post.lua"
    headers = f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "{JSON}"\n'
    script.write_text(f"{headers}wrk.body = '{body.decode()}'\n", encoding="utf-8")
    command = ["wrk", "-t1", f"-c{USERS}", f"-d{SECONDS}s", "-s", str(script), f"{url}/invocations"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(printed.partition("Requests/sec:")[2].split()[0])


def run_open_loop_loadgen(folder: Path, url: str, body: bytes, seed: int) -> list[float]:
    """Run MLPerf's loadgen in its server scenario; 32 threads send what it issues."""
    loadgen: Any = import_module("mlperf_loadgen")

    issued: queue.SimpleQueue[int] = queue.SimpleQueue()

    def send() -> None:
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        while True:
            query = issued.get()
            connection.request("POST", "/invocations", body, {"Content-Type": JSON})
            connection.getresponse().read()
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(query, 0, 0)])

    def issue(queries: list[Any]) -> None:
        for each in queries:
            issued.put(each.id)

    for _ in range(32):
        threading.Thread(target=send, daemon=True).start()
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.server_target_qps, settings.schedule_rng_seed = RATE, seed + 1
    settings.min_query_count = settings.max_query_count = RATE * OPEN_SECONDS
    settings.min_duration_ms = 1
    logs, output = loadgen.LogSettings(), loadgen.LogOutputSettings()
    output.outdir = str(folder)
    logs.log_output = output
    system = loadgen.ConstructSUT(issue, lambda: None)
    library = loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
    loadgen.StartTestWithLogSettings(system, library, settings, logs)
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    summary = (folder / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    found = [re.search(rf"{p}.00 percentile latency.*: (\d+)", summary) for p in PERCENTILES]
    return [int(match[1]) / 1e6 for match in found if match]
