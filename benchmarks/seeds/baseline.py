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
from benchmarks.callers import EndpointCaller, load
from benchmarks.command import in_turn
from benchmarks.cost import Cpu, cpu, memory_mb
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.flask_server import FlaskServer, flask_server
from infra.policy.container import ContainerSettings

MODELS = ("small", "large", "largest")
REPEATS, RATE_REPEATS = 8, 5
# Some tenths of a second of CPU time each: it is told in steps of 10 ms.
REQUEST_SECONDS = 0.7
ROWS = (1, 111)
CALLERS, THROUGHPUT_SECONDS, WARM_SECONDS = 8, 1.5, 0.5
WORKERS = (1, 4)
# What the wall is, and the article's workers once the model is out of them.
WALL_MB, ARTICLE_WORKERS = 4_096, 12
Running = dict[str, tuple[str, Callable[[], Cpu], str]]
"""Way -> (url, its processes' CPU time so far, what it is sent)."""


def measured(bench: Bench) -> dict[str, Any]:
    small = bench.models["small"].keras
    with ExitStack() as stack:
        running: Running = {}
        for how in ("predict", "call"):
            flask = stack.enter_context(
                flask_server(small, how=how, workers=1, folder=bench.folder)
            )
            running[f"Flask, model.{how}"] = flask.url, flask.cpu, workload.JSON
        running["Flask, model.call, npy"] = flask.url, flask.cpu, workload.NPY
        ours = stack.enter_context(bench.serve("small"))
        for label, form in (("JSON", workload.JSON), ("npy", workload.NPY)):
            running[f"ours, {label}"] = ours.url, partial(cpu, ours), form
        found = {
            "largest_difference": _difference(running),
            "requests": _requests(running, bench),
            "throughput": _throughput(bench, flask, ours.url),
        }
    return found | {"memory": _memory(bench)}


def _difference(running: Running) -> float:
    """The largest between any two ways' answers to the same rows."""
    answers = []
    for url, _, form in running.values():
        body = _answer(EndpointCaller(url), workload.body(form, 111), form)
        npy = form == workload.NPY
        found = np.load(io.BytesIO(body)) if npy else np.array(json.loads(body)["predictions"])
        answers.append(found.astype(np.float64))
    return float(max(np.abs(answer - answers[0]).max() for answer in answers))


def _requests(running: Running, bench: Bench) -> list[dict[str, Any]]:
    found = []
    for repeat, way in in_turn(running, REPEATS):
        for rows in ROWS:
            cost = _cost(*running[way], rows)
            found.append({"repeat": repeat, "way": way, "rows": rows, **cost})
        bench.told(f"requests, repeat {repeat + 1} of {REPEATS}: {way}")
    return found


def _cost(url: str, spent: Callable[[], Cpu], form: str, rows: int) -> dict[str, float]:
    """Cost and median latency of one request; requests follow each other on one connection."""
    caller, body = EndpointCaller(url), workload.body(form, rows)
    for _ in range(3):
        _answer(caller, body, form)
    latencies, before = [], spent()
    until = time.perf_counter() + REQUEST_SECONDS
    while (began := time.perf_counter()) < until:
        _answer(caller, body, form)
        latencies.append((time.perf_counter() - began) * 1000)
    took, count = spent() - before, len(latencies)
    return {
        "cpu_ms": took.whole_ms / count,
        "model_server_ms": took.model_server_ms / count,
        "latency_ms": median(latencies),
    }


def _answer(caller: EndpointCaller, body: bytes, form: str) -> bytes:
    status, found = caller.ask(body, form)
    if status != 200:
        raise RuntimeError(f"{form}: {status} {found[:300]!r}")
    return found


def _throughput(bench: Bench, flask: FlaskServer, one_worker: str) -> list[dict[str, Any]]:
    """The same servers, then with more workers."""
    few, many = WORKERS
    rates = _rates(few, flask.url, one_worker)
    bench.told(f"{CALLERS} callers, {few} worker")
    flask.add_workers(many - few)
    with bench.serve("small", ContainerSettings(gunicorn_workers=many)) as ours:
        rates += _rates(many, flask.url, ours.url)
    bench.told(f"{CALLERS} callers, {many} workers")
    return rates


def _rates(workers: int, flask: str, ours: str) -> list[dict[str, Any]]:
    found, urls = [], {"Flask, model.call": flask, "ours, JSON": ours}
    for repeat, way in in_turn(urls, RATE_REPEATS):
        row = {"repeat": repeat, "way": way, "workers": workers}
        found.append({**row, "requests_per_second": _rate(urls[way], THROUGHPUT_SECONDS)})
    return found


def _rate(url: str, seconds: float) -> float:
    body, form = workload.body(workload.JSON, 1), workload.JSON
    one = load(url, body, callers=CALLERS, seconds=seconds, content_type=form)
    if one.failed:
        raise RuntimeError(f"{url}: {one.failed} requests failed")
    return one.requests_per_second


def _memory(bench: Bench) -> dict[str, Any]:
    """Proportional set sizes of all processes, after some requests. Once: it does not scatter.

    And with the largest model, how many workers fit before the wall.
    """
    growing: list[dict[str, Any]] = []
    wall: dict[int, float] = {}
    largest = [*bench.models][-1]
    for name, model in bench.models.items():
        flask = _flask_memory(bench, name, until_the_wall=name == largest)
        wall = flask  # the last one's is the largest model's
        ours = {workers: _our_memory(bench, name, workers) for workers in WORKERS}
        for way, memory in (("Flask", flask), ("ours", ours)):
            by_workers = {str(workers): memory[workers] for workers in WORKERS}
            growing.append({"way": way, "weights_mb": model.weights_mb, "memory_mb": by_workers})
        bench.told(f"memory with {model.weights_mb:.0f} MB of weights")
    twelve = _our_memory(bench, largest, ARTICLE_WORKERS)
    return {
        "growing": growing,
        "wall_mb": WALL_MB,
        "flask_wall": [{"workers": workers, "memory_mb": mb} for workers, mb in wall.items()],
        "ours_at_twelve": {"workers": ARTICLE_WORKERS, "memory_mb": twelve},
    }


def _flask_memory(bench: Bench, name: str, *, until_the_wall: bool) -> dict[int, float]:
    """By workers: the few and the many, or each number until one is beyond the wall."""
    few, many = WORKERS
    model = bench.models[name].keras
    with flask_server(model, how="call", workers=few, folder=bench.folder) as flask:
        found, workers = {few: _warm(flask.url, flask.memory_mb)}, few
        while workers < many or (
            until_the_wall and found[workers] <= WALL_MB and workers < ARTICLE_WORKERS
        ):
            more = 1 if until_the_wall else many - few
            flask.add_workers(more)
            workers += more
            found[workers] = _warm(flask.url, flask.memory_mb)
            bench.told(f"{workers} Flask workers take {found[workers]:.0f} MB")
    return found


def _our_memory(bench: Bench, name: str, workers: int) -> float:
    with bench.serve(name, ContainerSettings(gunicorn_workers=workers)) as ours:
        return _warm(ours.url, partial(memory_mb, ours))


def _warm(url: str, memory: Callable[[], float]) -> float:
    _rate(url, WARM_SECONDS)
    return memory()
