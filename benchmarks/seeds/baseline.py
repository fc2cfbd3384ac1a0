"""S0 and S1: Flask with Keras inside the web worker, beside the shape that is deployed here."""

import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.seeds import memory
from benchmarks.seeds.asking import answer, cost
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.flask_server import FlaskServer, flask_server
from benchmarks.serving import workload
from benchmarks.serving.callers import Caller, asked
from benchmarks.serving.cost import Cpu
from infra.policy.container import ContainerSettings

MODELS = ("small", "large", "largest")
SECONDS = 205.0
REPEATS, RATE_REPEATS = 8, 5
# Some tenths of a second of CPU time each: it is told in steps of 10 ms.
REQUEST_SECONDS = 0.7
ROWS = (1, 111)
CALLERS, THROUGHPUT_SECONDS = 8, 1.5
WORKERS = (1, 4)
Running = dict[str, tuple[str, Callable[[], Cpu], str]]


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
            running[f"ours, {label}"] = ours.url, ours.cpu, form
        found = {
            "largest_difference": _difference(running),
            "requests": _requests(running, bench),
            "throughput": _throughput(bench, flask, ours.url),
        }
    return found | {"memory": memory.measured(bench)}


def _difference(running: Running) -> float:
    """The largest between any two ways' answers to the same rows."""
    answers = []
    for url, _, form in running.values():
        body = answer(Caller(url), workload.body(form, 111), form)
        npy = form == workload.NPY
        found = np.load(io.BytesIO(body)) if npy else np.array(json.loads(body)["predictions"])
        answers.append(found.astype(np.float64))
    return float(max(np.abs(one - answers[0]).max() for one in answers))


def _requests(running: Running, bench: Bench) -> list[dict[str, Any]]:
    found = []
    for repeat in range(REPEATS):
        turn = repeat % len(running)
        for way in [*running][turn:] + [*running][:turn]:
            url, cpu, form = running[way]
            for rows in ROWS:
                body = workload.body(form, rows)
                one = cost(url, body, form, seconds=REQUEST_SECONDS, cpu=cpu)
                found.append({"repeat": repeat, "way": way, "rows": rows, **asdict(one)})
        bench.told(f"requests, repeat {repeat + 1} of {REPEATS}")
    return found


def _throughput(bench: Bench, flask: FlaskServer, one_worker: str) -> list[dict[str, Any]]:
    """The same servers, then with more workers."""
    few, many = WORKERS
    found = _rates(few, flask.url, one_worker)
    bench.told(f"{CALLERS} callers, {few} worker")
    flask.add_workers(many - few)
    with bench.serve("small", ContainerSettings(gunicorn_workers=many)) as ours:
        found += _rates(many, flask.url, ours.url)
    bench.told(f"{CALLERS} callers, {many} workers")
    return found


def _rates(workers: int, flask: str, ours: str) -> list[dict[str, Any]]:
    body, found = workload.body(workload.JSON, 1), []
    ways = [("Flask, model.call", flask), ("ours, JSON", ours)]
    for repeat in range(RATE_REPEATS):
        for way, url in ways[:: 1 if repeat % 2 else -1]:
            one = asked(
                url,
                body,
                callers=CALLERS,
                seconds=THROUGHPUT_SECONDS,
                content_type=workload.JSON,
            )
            if one.failed:
                raise RuntimeError(f"{way}, {workers} workers: {one.failed} requests failed")
            row = {"repeat": repeat, "way": way, "workers": workers}
            found.append({**row, "requests_per_second": one.requests_per_second})
    return found
