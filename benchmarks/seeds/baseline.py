"""S0 and S1: Flask with Keras inside the web worker, beside the shape that is deployed here.

Requests one after the other, their rate with more callers, and memory as the model grows.
"""

import io
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller
from benchmarks.cost import Cpu, cpu, memory_mb
from benchmarks.frame import in_turn
from benchmarks.seeds.bench import Bench, latency_ms, rate
from infra.policy.container import ContainerSettings

MODELS = ("small", "large", "largest")
REPEATS, RATE_REPEATS = 8, 5
# Some tenths of a second of CPU time each: the kernel counts it in steps of 10 ms.
REQUEST_SECONDS = 0.7
ROWS = (1, 111)
THROUGHPUT_SECONDS, WARM_SECONDS = 1.5, 0.5
WORKERS = (1, 4)
# The memory at which the wall is, and the article's workers once the model is out of them.
WALL_MB, ARTICLE_WORKERS = 4_096, 12
Running = dict[str, tuple[str, Callable[[], Cpu], str]]
"""Way -> (url, its processes' CPU time so far, content type)."""


def measured(bench: Bench) -> dict[str, Any]:
    running: Running = {}
    with ExitStack() as stack:
        for how in ("predict", "call"):
            flask = stack.enter_context(bench.flask("small", how))
            running[f"Flask, model.{how}"] = flask.url, flask.cpu, workload.JSON
        running["Flask, model.call, npy"] = flask.url, flask.cpu, workload.NPY
        ours = stack.enter_context(bench.serve("small"))
        running["ours, JSON"] = ours.url, partial(cpu, ours), workload.JSON
        running["ours, npy"] = ours.url, partial(cpu, ours), workload.NPY
        difference, requests = _difference(running), _requests(running, bench)
    throughput = [row for workers in WORKERS for row in _throughput(bench, workers)]
    about = {"largest_difference": difference, "requests": requests, "throughput": throughput}
    return about | {"memory": _memory(bench)}


def _difference(running: Running) -> float:
    """The largest between any two ways' answers to the same rows."""
    answers = []
    for url, _, form in running.values():
        body = EndpointCaller(url).ask(workload.body(form, 111), form)
        npy = form == workload.NPY
        answer = np.load(io.BytesIO(body)) if npy else np.array(json.loads(body)["predictions"])
        answers.append(answer.astype(np.float64))
    return float(max(np.abs(answer - answers[0]).max() for answer in answers))


def _requests(running: Running, bench: Bench) -> list[dict[str, Any]]:
    costs = []
    for repeat, way in in_turn(running, REPEATS):
        for rows in ROWS:
            cost = _cost(*running[way], rows)
            costs.append({"repeat": repeat, "way": way, "rows": rows, **cost})
        bench.log(f"requests, repeat {repeat + 1} of {REPEATS}: {way}")
    return costs


def _cost(url: str, spent: Callable[[], Cpu], form: str, rows: int) -> dict[str, float]:
    """Cost and median latency of one request; requests follow each other on one connection."""
    ask = partial(EndpointCaller(url).ask, workload.body(form, rows), form)
    for _ in range(3):
        ask()
    latencies_ms, before = [], spent()
    until = time.perf_counter() + REQUEST_SECONDS
    while time.perf_counter() < until:
        latencies_ms.append(latency_ms(ask))
    gateway, model_server = ((spent() - before) / len(latencies_ms)).tolist()
    cpu_ms = {"cpu_ms": gateway + model_server, "model_server_ms": model_server}
    return {**cpu_ms, "latency_ms": median(latencies_ms)}


def _throughput(bench: Bench, workers: int) -> list[dict[str, Any]]:
    rates = []
    settings = ContainerSettings(gunicorn_workers=workers)
    with bench.flask("small", workers=workers) as flask, bench.serve("small", settings) as ours:
        urls = {"Flask, model.call": flask.url, "ours, JSON": ours.url}
        for repeat, way in in_turn(urls, RATE_REPEATS):
            row = {"repeat": repeat, "way": way, "workers": workers}
            rates.append({**row, "requests_per_second": rate(urls[way], THROUGHPUT_SECONDS)})
    bench.log(f"requests per second, {workers} workers")
    return rates


def _memory(bench: Bench) -> dict[str, Any]:
    """Proportional set sizes of all processes, after some requests. Once: it does not scatter.

    And with the largest model, the memory of more workers until one is beyond the wall.
    """

    def flask(model: str, workers: int) -> float:
        with bench.flask(model, workers=workers) as server:
            rate(server.url, WARM_SECONDS)
            return server.memory_mb()

    def ours(model: str, workers: int) -> float:
        with bench.serve(model, ContainerSettings(gunicorn_workers=workers)) as endpoint:
            rate(endpoint.url, WARM_SECONDS)
            return memory_mb(endpoint)

    growing: list[dict[str, Any]] = []
    for model in MODELS:
        weights_mb = (bench.folder / f"{model}.keras").stat().st_size / 1e6
        for way, memory in (("Flask", flask), ("ours", ours)):
            by_workers = {str(workers): memory(model, workers) for workers in WORKERS}
            growing.append({"way": way, "weights_mb": weights_mb, "memory_mb": by_workers})
        bench.log(f"memory with {weights_mb:.0f} MB of weights")
    wall = []
    for workers in range(1, ARTICLE_WORKERS + 1):
        wall.append({"workers": workers, "memory_mb": flask(MODELS[-1], workers)})
        if wall[-1]["memory_mb"] > WALL_MB:
            break
    twelve = {"workers": ARTICLE_WORKERS, "memory_mb": ours(MODELS[-1], ARTICLE_WORKERS)}
    return {"growing": growing, "wall_mb": WALL_MB, "flask_wall": wall, "ours_at_twelve": twelve}
