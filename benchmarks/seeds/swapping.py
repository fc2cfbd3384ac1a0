"""S3: what those who ask one model notice of another one: loaded, unloaded, asked, gone back to."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.callers import EndpointCaller
from benchmarks.seeds.background import ModelPath, background_callers
from benchmarks.seeds.bench import Bench
from infra.policy.container import DEFAULT_MODEL_NAME, MULTI_MODEL_SWITCH, variable_of
from servable_local.container.image_code import VERSION
from servable_local.container.launch import EndpointProcess

MODELS = ("small", "largest")
REPEATS, CALLERS = 5, 2
STEADY_SECONDS, SHORT_SECONDS = 2.0, 1.0
# Up to 2.19 multi-model mode runs Gunicorn's gthread. Of one thread, the image's default, a load
# takes the only one: so there is one for each caller, one for the load, and one to spare.
THREADS = 4
ONE_THREAD = {MULTI_MODEL_SWITCH: "true", VERSION: "2.19"}
MULTI_MODEL = {**ONE_THREAD, variable_of("gunicorn_threads"): str(THREADS)}
OLD, NEW = ModelPath("/models/old/invoke"), ModelPath("/models/new/invoke")
Row = dict[str, Any]


class MultiModelEndpoint:
    """An endpoint in multi-model mode, whose archive holds versions/MODEL/."""

    def __init__(self, endpoint: EndpointProcess) -> None:
        self.url = endpoint.url
        self._folder = endpoint.folder / "model" / "versions"

    def load(self, name: str, model: str) -> None:
        told = {"model_name": name, "url": str(self._folder / model)}
        self._ask("POST", "/models", json.dumps(told).encode())

    def unload(self, name: str) -> None:
        self._ask("DELETE", f"/models/{name}", b"")

    def _ask(self, method: str, path: str, body: bytes) -> None:
        caller = EndpointCaller(self.url)
        status, words = caller.ask(body, workload.JSON, path=path, method=method)
        caller.close()
        if status != 200:
            raise RuntimeError(f"{method} {path}: {status} {words[:300]!r}")


def measured(bench: Bench) -> dict[str, Any]:
    archive = bench.packed("versions", "versions/", MODELS)
    loading: list[Row] = []
    back: list[Row] = []
    with bench.start(archive, MULTI_MODEL) as endpoint:
        models = MultiModelEndpoint(endpoint)
        models.load("old", "small")
        for repeat in range(REPEATS):
            rows = _loaded(models)
            back.append({"repeat": repeat, **_back(models)})
            loading += [{"repeat": repeat, **row} for row in [*rows, _unloaded(models)]]
            bench.told(f"repeat {repeat + 1} of {REPEATS}")
    with bench.start(archive, ONE_THREAD) as endpoint:
        models = MultiModelEndpoint(endpoint)
        models.load("old", "small")
        for repeat in range(REPEATS):
            for row in _loaded(models)[:2]:
                loading.append({"repeat": repeat, **row, "phase": f"one thread: {row['phase']}"})
            models.unload("new")
        bench.told("one thread")
    return {"loading": loading, "back": back, "together": _together(bench, archive)}


def _loaded(models: MultiModelEndpoint) -> list[Row]:
    """The old model's latency before, while and after a large one is loaded."""
    return _during(
        models,
        {
            "before": partial(time.sleep, STEADY_SECONDS),
            "while another is loaded": partial(models.load, "new", "largest"),
            "with both loaded": partial(time.sleep, STEADY_SECONDS),
        },
    )


def _unloaded(models: MultiModelEndpoint) -> Row:
    def unloaded() -> None:
        models.unload("new")
        time.sleep(SHORT_SECONDS)

    steady = partial(time.sleep, SHORT_SECONDS / 4)
    return _during(models, {"": steady, "in the second after it is unloaded": unloaded})[1]


def _during(models: MultiModelEndpoint, phases: dict[str, Callable[[], None]]) -> list[Row]:
    """The old model's latencies in each phase; who waited longest is answered last."""
    marks = []
    with background_callers(models.url, OLD, count=CALLERS) as asking:
        for name, happens in phases.items():
            start = time.perf_counter()
            happens()
            marks.append((name, start, time.perf_counter()))
    return [
        {"phase": name, "seconds": end - start, **asking.between(start, end)}
        for name, start, end in marks
    ]


def _back(models: MultiModelEndpoint) -> dict[str, float]:
    """From the decision until the new version has answered for the last time.

    Once with the old version still loaded, and once with the old version loaded again first.
    """
    with background_callers(models.url, NEW, count=CALLERS) as asking:
        time.sleep(SHORT_SECONDS)
        kept = time.perf_counter()
        asking.target = OLD
        time.sleep(SHORT_SECONDS)
        kept_ms = (asking.last(NEW) - kept) * 1000
        asking.target = NEW
        time.sleep(SHORT_SECONDS)
        models.unload("old")
        again = time.perf_counter()
        models.load("old", "small")
        asking.target = OLD
        time.sleep(SHORT_SECONDS)
        again_ms = (asking.last(NEW) - again) * 1000
    return {"kept_ms": kept_ms, "loaded_again_ms": again_ms}


def _together(bench: Bench, versions: Path) -> list[Row]:
    """The small model's latency alone, and while a larger one is asked beside it."""
    rows: list[Row] = []
    both = bench.packed("both", "", MODELS)
    with (
        bench.start(both, {DEFAULT_MODEL_NAME: "small"}) as one_process,
        bench.start(versions, MULTI_MODEL) as processes,
    ):
        for name in MODELS:
            MultiModelEndpoint(processes).load(name, name)
        ways = {
            "one process": (
                one_process.url,
                [ModelPath("/invocations", f"tfs-model-name={name}") for name in MODELS],
            ),
            "a process each": (
                processes.url,
                [ModelPath(f"/models/{name}/invoke") for name in MODELS],
            ),
        }
        for repeat in range(REPEATS):
            for way, (url, (small, largest)) in ways.items():
                for busy in (False, True):
                    row = _beside(url, small, largest if busy else None)
                    rows.append({"repeat": repeat, "way": way, "busy": busy, **row})
            bench.told(f"two models, repeat {repeat + 1} of {REPEATS}")
    return rows


def _beside(url: str, asked: ModelPath, busy: ModelPath | None) -> dict[str, float]:
    others = background_callers(url, busy or asked, count=1 if busy else 0)
    with background_callers(url, asked, count=1) as asking, others:
        time.sleep(SHORT_SECONDS / 4)
        start = time.perf_counter()
        time.sleep(STEADY_SECONDS)
        end = time.perf_counter()
    return asking.between(start, end)
