"""S0 and S1: Flask with Keras inside the web worker, beside the shape that is deployed here."""

import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.seeds.asking import answer, cost
from benchmarks.seeds.flask_server import flask_server
from benchmarks.seeds.models import Made
from benchmarks.serving import workload
from benchmarks.serving.callers import Caller, asked
from benchmarks.serving.cost import cpu, pss_mb
from local.endpoint.launch import EndpointProcess, launch

Told = Callable[[str], None]
REPEATS = 5
# Enough for some tenths of a second of CPU time each: it is told in steps of 10 ms.
REQUESTS = {1: 150, 111: 30}
CALLERS, SECONDS, THROUGHPUT_REPEATS = 8, 2.0, 3
WORKERS = (1, 4)
# What the memory wall is measured against, and the article's workers once the model is out of them.
WALL_MB, ARTICLE_WORKERS = 4_096, 12


def measured(folder: Path, models: dict[str, Made], told: Told) -> dict[str, Any]:
    archives = {name: _archive(folder, name, made) for name, made in models.items()}
    small = models["small"].keras
    with ExitStack() as stack:
        running: dict[str, tuple[str, Callable[[], float], str]] = {}
        for how in ("predict", "call"):
            flask = stack.enter_context(flask_server(small, how=how, workers=1, folder=folder))
            running[f"Flask, model.{how}"] = flask.url, flask.cpu_ms, workload.JSON
        ours = stack.enter_context(launch(archives["small"], {}))
        for label, form in (("JSON", workload.JSON), ("npy", workload.NPY)):
            running[f"ours, {label}"] = ours.url, lambda: cpu(ours).whole_ms, form
        return {
            "largest_difference": _difference(running),
            "requests": _requests(running, told),
            "throughput": _throughput(folder, small, archives["small"], told),
            "memory": _memory(folder, models, archives, told),
        }


def _archive(folder: Path, name: str, made: Made) -> Path:
    code = {"inference.py": b"from serving.inference import handler\n"}
    return workload.pack(folder / f"{name}.tar.gz", made.saved_model, code, ours=True)


def _difference(running: dict[str, tuple[str, Callable[[], float], str]]) -> float:
    """The largest between any two ways' answers to the same rows."""
    answers = []
    for url, _, form in running.values():
        body = answer(Caller(url), workload.body(form, 111), form)
        npy = form == workload.NPY
        found = np.load(io.BytesIO(body)) if npy else np.array(json.loads(body)["predictions"])
        answers.append(found.astype(np.float64))
    return float(max(np.abs(one - answers[0]).max() for one in answers))


def _requests(
    running: dict[str, tuple[str, Callable[[], float], str]], told: Told
) -> list[dict[str, Any]]:
    found = []
    for repeat in range(REPEATS):
        turn = repeat % len(running)
        for way in [*running][turn:] + [*running][:turn]:
            url, cpu_ms, form = running[way]
            for rows, requests in REQUESTS.items():
                body = workload.body(form, rows)
                one = cost(url, body, form, requests=requests, cpu_ms=cpu_ms)
                found.append({"repeat": repeat, "way": way, "rows": rows, **asdict(one)})
        told(f"baseline: requests, repeat {repeat + 1} of {REPEATS}")
    return found


def _throughput(folder: Path, model: Path, archive: Path, told: Told) -> list[dict[str, Any]]:
    body, found = workload.body(workload.JSON, 1), []
    for workers in WORKERS:
        with (
            flask_server(model, how="call", workers=workers, folder=folder) as flask,
            launch(archive, {"SAGEMAKER_GUNICORN_WORKERS": str(workers)}) as ours,
        ):
            for repeat in range(THROUGHPUT_REPEATS):
                for way, url in (("Flask, model.call", flask.url), ("ours, JSON", ours.url)):
                    one = asked(
                        url, body, callers=CALLERS, seconds=SECONDS, content_type=workload.JSON
                    )
                    row = {"repeat": repeat, "way": way, "workers": workers}
                    found.append({**row, "requests_per_second": one.requests_per_second})
        told(f"baseline: {CALLERS} callers, {workers} workers")
    return found


def _memory(
    folder: Path, models: dict[str, Made], archives: dict[str, Path], told: Told
) -> dict[str, Any]:
    """Proportional set sizes, after some requests; and the wall, by starting more workers."""

    def flask(name: str, workers: int) -> float:
        with flask_server(models[name].keras, how="call", workers=workers, folder=folder) as one:
            _warm(one.url)
            return one.memory_mb()

    def ours(name: str, workers: int) -> float:
        variables = {"SAGEMAKER_GUNICORN_WORKERS": str(workers)}
        with launch(archives[name], variables) as one:
            _warm(one.url)
            return pss_mb(_pids(one))

    found, largest = [], [*models][-1]
    for name, made in models.items():
        for way, memory in (("Flask", flask), ("ours", ours)):
            row: dict[str, Any] = {"way": way, "weights_mb": made.weights_mb}
            row["memory_mb"] = {str(workers): memory(name, workers) for workers in WORKERS}
            found.append(row)
        told(f"baseline: memory with {made.weights_mb:.0f} MB of weights")
    wall = [{"workers": 1, "memory_mb": found[-2]["memory_mb"]["1"]}]
    while wall[-1]["memory_mb"] <= WALL_MB and len(wall) < ARTICLE_WORKERS:
        workers = len(wall) + 1
        wall.append({"workers": workers, "memory_mb": flask(largest, workers)})
        told(f"baseline: {workers} Flask workers take {wall[-1]['memory_mb']:.0f} MB")
    twelve = {"workers": ARTICLE_WORKERS, "memory_mb": ours(largest, ARTICLE_WORKERS)}
    return {"growing": found, "wall_mb": WALL_MB, "flask_wall": wall, "ours_at_twelve": twelve}


def _warm(url: str) -> None:
    body = workload.body(workload.JSON, 1)
    asked(url, body, callers=CALLERS, seconds=0.5, content_type=workload.JSON)


def _pids(process: EndpointProcess) -> list[int]:
    parts = process.parts
    all_of = (parts.front, parts.gateway, *parts.workers, *parts.model_servers)
    return [pid for pid in all_of if pid is not None]
