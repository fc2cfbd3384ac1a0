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
from typing import Any, Literal

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller, load
from benchmarks.cost import Cpu, cpu, memory_mb
from benchmarks.frame import in_turn
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.flask_server import flask_server
from infra.policy.container import ContainerSettings

MODELS = ("small", "large", "largest")
REPEATS, RATE_REPEATS = 8, 5
# Some tenths of a second of CPU time each: the kernel counts it in steps of 10 ms.
REQUEST_SECONDS = 0.7
ROWS = (1, 111)
CALLERS, THROUGHPUT_SECONDS, WARM_SECONDS = 8, 1.5, 0.5
WORKERS = (1, 4)
# The memory at which the wall is, and the article's workers once the model is out of them.
WALL_MB, ARTICLE_WORKERS = 4_096, 12
HOWS: tuple[Literal["predict", "call"], ...] = ("predict", "call")
Running = dict[str, tuple[str, Callable[[], Cpu], str]]
"""Way -> (url, its processes' CPU time so far, content type)."""


def measured(bench: Bench) -> dict[str, Any]:
    running: Running = {}
    with ExitStack() as stack:
        for how in HOWS:
            server = flask_server(bench.keras("small"), how=how, workers=1)
            flask = stack.enter_context(server)
            running[f"Flask, model.{how}"] = flask.url, flask.cpu, workload.JSON
        running["Flask, model.call, npy"] = flask.url, flask.cpu, workload.NPY
        ours = stack.enter_context(bench.serve("small"))
        for label, form in (("JSON", workload.JSON), ("npy", workload.NPY)):
            running[f"ours, {label}"] = ours.url, partial(cpu, ours), form
        difference, requests = _difference(running), _requests(running, bench)
    throughput = [rate for workers in WORKERS for rate in _throughput(bench, workers)]
    about = {"largest_difference": difference, "requests": requests, "throughput": throughput}
    return about | {"memory": _memory(bench)}


def _difference(running: Running) -> float:
    """The largest between any two ways' answers to the same rows."""
    answers = []
    for url, _, form in running.values():
        body = _answer(EndpointCaller(url), workload.body(form, 111), form)
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
    caller, body = EndpointCaller(url), workload.body(form, rows)
    for _ in range(3):
        _answer(caller, body, form)
    latencies_ms, before = [], spent()
    until = time.perf_counter() + REQUEST_SECONDS
    while (began := time.perf_counter()) < until:
        _answer(caller, body, form)
        latencies_ms.append((time.perf_counter() - began) * 1000)
    gateway, model_server = ((spent() - before) / len(latencies_ms)).tolist()
    cpu_ms = {"cpu_ms": gateway + model_server, "model_server_ms": model_server}
    return {**cpu_ms, "latency_ms": median(latencies_ms)}


def _answer(caller: EndpointCaller, body: bytes, form: str) -> bytes:
    status, answer = caller.ask(body, form)
    if status != 200:
        raise RuntimeError(f"{form}: {status} {answer[:300]!r}")
    return answer


def _throughput(bench: Bench, workers: int) -> list[dict[str, Any]]:
    rates = []
    with (
        flask_server(bench.keras("small"), how="call", workers=workers) as flask,
        bench.serve("small", ContainerSettings(gunicorn_workers=workers)) as ours,
    ):
        urls = {"Flask, model.call": flask.url, "ours, JSON": ours.url}
        for repeat, way in in_turn(urls, RATE_REPEATS):
            row = {"repeat": repeat, "way": way, "workers": workers}
            rates.append({**row, "requests_per_second": _rate(urls[way], THROUGHPUT_SECONDS)})
    bench.log(f"{CALLERS} callers, {workers} workers")
    return rates


def _rate(url: str, seconds: float) -> float:
    body, form = workload.body(workload.JSON, 1), workload.JSON
    run = load(url, body, callers=CALLERS, seconds=seconds, content_type=form)
    if run.failed:
        raise RuntimeError(f"{url}: {run.failed} requests failed")
    return run.requests_per_second


def _memory(bench: Bench) -> dict[str, Any]:
    """Proportional set sizes of all processes, after some requests. Once: it does not scatter.

    And with the largest model, the memory of more workers until one is beyond the wall.
    """
    growing: list[dict[str, Any]] = []
    for model in MODELS:
        weights_mb = bench.keras(model).stat().st_size / 1e6
        for way, memory in (("Flask", _flask_memory), ("ours", _our_memory)):
            by_workers = {str(workers): memory(bench, model, workers) for workers in WORKERS}
            growing.append({"way": way, "weights_mb": weights_mb, "memory_mb": by_workers})
        bench.log(f"memory with {weights_mb:.0f} MB of weights")
    largest, wall = MODELS[-1], []
    for workers in range(1, ARTICLE_WORKERS + 1):
        wall.append({"workers": workers, "memory_mb": _flask_memory(bench, largest, workers)})
        if wall[-1]["memory_mb"] > WALL_MB:
            break
    twelve = {"workers": ARTICLE_WORKERS, "memory_mb": _our_memory(bench, largest, ARTICLE_WORKERS)}
    return {"growing": growing, "wall_mb": WALL_MB, "flask_wall": wall, "ours_at_twelve": twelve}


def _flask_memory(bench: Bench, model: str, workers: int) -> float:
    with flask_server(bench.keras(model), how="call", workers=workers) as flask:
        _rate(flask.url, WARM_SECONDS)
        return flask.memory_mb()


def _our_memory(bench: Bench, model: str, workers: int) -> float:
    with bench.serve(model, ContainerSettings(gunicorn_workers=workers)) as ours:
        _rate(ours.url, WARM_SECONDS)
        return memory_mb(ours)
