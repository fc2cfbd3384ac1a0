"""S3: what those who ask one model notice of another one: loaded, unloaded, asked, gone back to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.seeds.bench import Bench
from benchmarks.seeds.crowd import Target, crowd
from benchmarks.seeds.multi_model import MultiModel
from infra.policy.container import DEFAULT_MODEL_NAME, MULTI_MODEL_SWITCH, variable_of

MODELS = ("small", "largest")
SECONDS = 160.0
REPEATS, CALLERS = 5, 2
STEADY_SECONDS, SHORT_SECONDS = 2.0, 1.0
# Multi-model mode runs Gunicorn's gthread. Of one thread, the image's default, a load takes the
# only one: so there is one for each caller, one for the load, and one to spare.
THREADS = 4
MULTI_MODEL = {MULTI_MODEL_SWITCH: "true", variable_of("gunicorn_threads"): str(THREADS)}
ONE_THREAD = {MULTI_MODEL_SWITCH: "true"}
OLD, NEW = Target("/models/old/invoke"), Target("/models/new/invoke")
Row = dict[str, Any]


def measured(bench: Bench) -> dict[str, Any]:
    archive = bench.packed("versions", "versions/", MODELS)
    loading: list[Row] = []
    back: list[Row] = []
    with bench.start(archive, MULTI_MODEL) as server:
        models = MultiModel(server)
        models.load("old", "small")
        for repeat in range(REPEATS):
            rows = _loaded(models)
            back.append({"repeat": repeat, **_back(models)})
            rows.append(_unloaded(models))
            loading += [{"repeat": repeat, **row} for row in rows]
            bench.told(f"repeat {repeat + 1} of {REPEATS}")
    with bench.start(archive, ONE_THREAD) as server:
        models = MultiModel(server)
        models.load("old", "small")
        for repeat in range(REPEATS):
            for row in _loaded(models)[:2]:
                loading.append({"repeat": repeat, **row, "phase": f"one thread: {row['phase']}"})
            models.unload("new")
        bench.told("one thread")
    return {"loading": loading, "back": back, "together": _together(bench, archive)}


def _loaded(models: MultiModel) -> list[Row]:
    """The old model's latency before, while and after a large one is loaded."""
    with _phases(models, OLD) as phase:
        with phase("before"):
            time.sleep(STEADY_SECONDS)
        with phase("while another is loaded"):
            models.load("new", "largest")
        with phase("with both loaded"):
            time.sleep(STEADY_SECONDS)
    return phase.rows


def _unloaded(models: MultiModel) -> Row:
    with _phases(models, OLD) as phase:
        time.sleep(SHORT_SECONDS / 4)
        with phase("in the second after it is unloaded"):
            models.unload("new")
            time.sleep(SHORT_SECONDS)
    return phase.rows[0]


class _Phases:
    """`rows` is there when everybody was answered: who waited longest is answered last."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.marks: list[tuple[str, float, float]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.marks.append((name, start, time.perf_counter()))


@contextmanager
def _phases(models: MultiModel, target: Target) -> Iterator[_Phases]:
    found = _Phases()
    with crowd(models.url, target, count=CALLERS) as asking:
        yield found
    for name, start, end in found.marks:
        row = {"phase": name, "seconds": end - start, **asking.between(start, end)}
        found.rows.append(row)


def _back(models: MultiModel) -> dict[str, float]:
    """From the decision until the new version has answered for the last time.

    Once with the old version still loaded, and once with the old version loaded again first.
    """
    with crowd(models.url, NEW, count=CALLERS) as asking:
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
    found: list[Row] = []
    both = bench.packed("both", "", MODELS)
    with (
        bench.start(both, {DEFAULT_MODEL_NAME: "small"}) as one_process,
        bench.start(versions, MULTI_MODEL) as processes,
    ):
        for name in MODELS:
            MultiModel(processes).load(name, name)
        ways = {
            "one process": (
                one_process.url,
                [Target("/invocations", f"tfs-model-name={name}") for name in MODELS],
            ),
            "a process each": (
                processes.url,
                [Target(f"/models/{name}/invoke") for name in MODELS],
            ),
        }
        for repeat in range(REPEATS):
            for way, (url, (small, largest)) in ways.items():
                for busy in (False, True):
                    row = _beside(url, small, largest if busy else None)
                    found.append({"repeat": repeat, "way": way, "busy": busy, **row})
            bench.told(f"two models, repeat {repeat + 1} of {REPEATS}")
    return found


def _beside(url: str, asked: Target, busy: Target | None) -> dict[str, float]:
    with crowd(url, asked, count=1) as asking, crowd(url, busy or asked, count=1 if busy else 0):
        time.sleep(SHORT_SECONDS / 4)
        start = time.perf_counter()
        time.sleep(STEADY_SECONDS)
        end = time.perf_counter()
    return asking.between(start, end)
