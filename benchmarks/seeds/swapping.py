"""S3: latency of one model while another one is loaded, unloaded, called, and gone back to."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller
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
Row = dict[str, Any]
BODY = workload.body(workload.JSON, 1)


class ModelPath(NamedTuple):
    """`attributes`: SageMaker's custom ones, for an endpoint with several models in one process."""

    path: str
    attributes: str = ""


OLD, NEW = ModelPath("/models/old/invoke"), ModelPath("/models/new/invoke")


class BackgroundCallers:
    """`target` may be changed while they call: the next requests go there."""

    def __init__(self, url: str, target: ModelPath) -> None:
        self.target, self.stop = target, threading.Event()
        self._url = url
        self._answers: list[tuple[ModelPath, float, float]] = []

    def between(self, start: float, end: float) -> dict[str, float]:
        """Latencies of what was under way in this time, by time.perf_counter().

        Also of what was sent before it: that is what waits when everything stands still.
        """
        times = [
            (ended - began) * 1000
            for _, began, ended in [*self._answers]
            if began < end and ended > start
        ]
        if not times:
            raise RuntimeError("nobody was answered: the time was too short")
        p50, p99 = np.percentile(times, [50, 99]).tolist()
        return {"requests": len(times), "p50_ms": p50, "p99_ms": p99}

    def last(self, target: ModelPath) -> float:
        """Time of its last answer."""
        return max(ended for path, _, ended in self._answers if path == target)

    def call(self) -> None:
        caller = EndpointCaller(self._url)
        while not self.stop.is_set():
            target, began = self.target, time.perf_counter()
            caller.ask(BODY, workload.JSON, target.attributes, path=target.path)
            self._answers.append((target, began, time.perf_counter()))


@contextmanager
def background_callers(url: str, target: ModelPath, *, count: int) -> Iterator[BackgroundCallers]:
    """Raises OSError at the end where one of them was refused."""
    callers = BackgroundCallers(url, target)
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(callers.call) for _ in range(count)]
        try:
            yield callers
        finally:
            callers.stop.set()
    for one_caller in running:
        one_caller.result()


class MultiModelEndpoint:
    """An endpoint in multi-model mode, whose archive holds versions/MODEL/."""

    def __init__(self, endpoint: EndpointProcess) -> None:
        self.url = endpoint.url
        self._folder = endpoint.folder / "model" / "versions"

    def load(self, name: str, model: str) -> None:
        document = {"model_name": name, "url": str(self._folder / model)}
        body = json.dumps(document).encode()
        EndpointCaller(self.url).ask(body, workload.JSON, path="/models")

    def unload(self, name: str, then_wait_seconds: float = 0.0) -> None:
        EndpointCaller(self.url).ask(b"", workload.JSON, path=f"/models/{name}", method="DELETE")
        time.sleep(then_wait_seconds)


def measured(bench: Bench) -> dict[str, Any]:
    archive = bench.packed("versions", "versions/", MODELS)
    loading: list[Row] = []
    back: list[Row] = []
    for label, variables in (("", MULTI_MODEL), ("one thread: ", ONE_THREAD)):
        with bench.start(archive, variables) as endpoint:
            models = MultiModelEndpoint(endpoint)
            models.load("old", "small")
            for repeat in range(REPEATS):
                rows = _loaded(models)
                if not label:
                    back.append({"repeat": repeat, **_back(models)})
                unload = partial(models.unload, "new", then_wait_seconds=SHORT_SECONDS)
                steady = partial(time.sleep, SHORT_SECONDS / 4)
                phases = {"": steady, "in the second after it is unloaded": unload}
                rows.append(_during(models, phases)[1])
                for row in rows[:2] if label else rows:
                    loading.append({**row, "repeat": repeat, "phase": label + row["phase"]})
                bench.log(f"{label}repeat {repeat + 1} of {REPEATS}")
    return {"loading": loading, "back": back, "together": _together(bench, archive)}


def _loaded(models: MultiModelEndpoint) -> list[Row]:
    """The old model's latency before, while and after a large one is loaded."""
    steady = partial(time.sleep, STEADY_SECONDS)
    load = partial(models.load, "new", "largest")
    phases = {"before": steady, "while another is loaded": load, "with both loaded": steady}
    return _during(models, phases)


def _during(models: MultiModelEndpoint, phases: Mapping[str, Callable[[], None]]) -> list[Row]:
    """The old model's latencies in each phase; what waited longest is answered last."""
    marks = []
    with background_callers(models.url, OLD, count=CALLERS) as callers:
        for name, happens in phases.items():
            start = time.perf_counter()
            happens()
            marks.append((name, start, time.perf_counter()))
    return [
        {"phase": name, "seconds": end - start, **callers.between(start, end)}
        for name, start, end in marks
    ]


def _back(models: MultiModelEndpoint) -> dict[str, float]:
    """Milliseconds from the decision until the new version has answered for the last time.

    Once with the old version still loaded, and once with the old version loaded again first.
    """
    milliseconds = {}
    with background_callers(models.url, NEW, count=CALLERS) as callers:
        for name in ("kept_ms", "loaded_again_ms"):
            callers.target = NEW
            time.sleep(SHORT_SECONDS)
            if name == "loaded_again_ms":
                models.unload("old")
            decided = time.perf_counter()
            if name == "loaded_again_ms":
                models.load("old", "small")
            callers.target = OLD
            time.sleep(SHORT_SECONDS)
            milliseconds[name] = (callers.last(NEW) - decided) * 1000
    return milliseconds


def _together(bench: Bench, versions: Path) -> list[Row]:
    """The small model's latency alone, and while a larger one is called beside it."""
    rows: list[Row] = []
    both = bench.packed("both", "", MODELS)
    with (
        bench.start(both, {DEFAULT_MODEL_NAME: "small"}) as one_process,
        bench.start(versions, MULTI_MODEL) as processes,
    ):
        for name in MODELS:
            MultiModelEndpoint(processes).load(name, name)
        attributes = [ModelPath("/invocations", f"tfs-model-name={name}") for name in MODELS]
        paths = [ModelPath(f"/models/{name}/invoke") for name in MODELS]
        ways = {
            "one process": (one_process.url, attributes),
            "a process each": (processes.url, paths),
        }
        for repeat in range(REPEATS):
            for way, (url, (small, largest)) in ways.items():
                for busy in (False, True):
                    others = background_callers(url, largest, count=int(busy))
                    with background_callers(url, small, count=1) as callers, others:
                        time.sleep(SHORT_SECONDS / 4)
                        start = time.perf_counter()
                        time.sleep(STEADY_SECONDS)
                        end = time.perf_counter()
                    row = {"repeat": repeat, "way": way, "busy": busy}
                    rows.append({**row, **callers.between(start, end)})
            bench.log(f"two models, repeat {repeat + 1} of {REPEATS}")
    return rows
