"""S3: what those who ask one model notice of another one: loaded, unloaded, asked, gone back to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.seeds.bench import Bench
from benchmarks.seeds.crowd import Crowd, Target, crowd
from benchmarks.seeds.multi_model import MultiModel
from infra.policy.container import DEFAULT_MODEL_NAME, MULTI_MODEL_SWITCH

MODELS = ("small", "largest")
SECONDS = 120.0
REPEATS, CALLERS = 5, 2
STEADY_SECONDS, SHORT_SECONDS = 2.0, 1.0
MULTI_MODEL = {MULTI_MODEL_SWITCH: "true"}
OLD, NEW = Target("/models/old/invoke"), Target("/models/new/invoke")


def measured(bench: Bench) -> dict[str, Any]:
    archive = bench.packed("versions", "versions/", MODELS)
    loading: list[dict[str, Any]] = []
    back = []
    with bench.start(archive, MULTI_MODEL) as server:
        models = MultiModel(server)
        models.load("old", "small")
        for repeat in range(REPEATS):
            loading += [{"repeat": repeat, **row} for row in _loaded(models)]
            back.append({"repeat": repeat, **_back(models)})
            loading.append({"repeat": repeat, **_unloaded(models)})
            bench.told(f"repeat {repeat + 1} of {REPEATS}")
    return {"loading": loading, "back": back, "together": _together(bench)}


def _loaded(models: MultiModel) -> list[dict[str, Any]]:
    """The old model's latency before, while and after a large one is loaded."""
    rows: list[dict[str, Any]] = []
    with crowd(models.url, OLD, count=CALLERS) as asking:
        with _phase(asking, rows, "before"):
            time.sleep(STEADY_SECONDS)
        with _phase(asking, rows, "while another is loaded"):
            models.load("new", "largest")
        with _phase(asking, rows, "with both loaded"):
            time.sleep(STEADY_SECONDS)
    return rows


def _unloaded(models: MultiModel) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with crowd(models.url, OLD, count=CALLERS) as asking:
        time.sleep(SHORT_SECONDS / 4)
        with _phase(asking, rows, "in the second in which it is unloaded"):
            models.unload("new")
            time.sleep(SHORT_SECONDS)
    return rows[0]


@contextmanager
def _phase(asking: Crowd, rows: list[dict[str, Any]], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    end = time.perf_counter()
    rows.append({"phase": phase, "seconds": end - start, **asking.between(start, end)})


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


def _together(bench: Bench) -> list[dict[str, Any]]:
    """The small model's latency alone, and while a larger one is asked beside it."""
    found: list[dict[str, Any]] = []
    both = bench.packed("both", "", MODELS)
    each = bench.packed("versions", "versions/", MODELS)
    with (
        bench.start(both, {DEFAULT_MODEL_NAME: "small"}) as one_process,
        bench.start(each, MULTI_MODEL) as processes,
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


def _beside(url: str, asked: Target, busy: Target | None) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with crowd(url, asked, count=1) as asking, crowd(url, busy or asked, count=1 if busy else 0):
        time.sleep(SHORT_SECONDS / 4)
        with _phase(asking, rows, "steady"):
            time.sleep(STEADY_SECONDS)
    return rows[0]
