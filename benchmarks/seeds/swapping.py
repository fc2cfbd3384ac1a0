"""S3: what those who ask one model notice of another one: loaded, unloaded, asked, gone back to."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np

from benchmarks.seeds.models import Made
from benchmarks.serving import workload
from local.endpoint.launch import launch

Told = Callable[[str], None]
REPEATS, CALLERS, STEADY_SECONDS = 3, 2, 3.0
# Longer than it takes to load the largest model while others ask.
CALL_SECONDS = 60
MULTI_MODEL = {"SAGEMAKER_MULTI_MODEL": "true"}


def measured(folder: Path, models: dict[str, Made], told: Told) -> dict[str, Any]:
    small, large = _versions(folder, models)
    loading, back = [], []
    with launch(None, MULTI_MODEL) as process:
        ask = _Asked(process.url)
        ask.load("old", small)
        for repeat in range(REPEATS):
            loading += [{"repeat": repeat, **row} for row in _swap(ask, large)]
            back.append({"repeat": repeat, **_back(ask, small)})
            told(f"swapping: repeat {repeat + 1} of {REPEATS}")
    return {"loading": loading, "back": back, "together": _together(folder, models, told)}


def _versions(folder: Path, models: dict[str, Made]) -> list[Path]:
    """As multi-model mode finds them: a folder of versions each."""
    found = []
    for name in ("small", "largest"):
        versions = folder / "versions" / name
        versions.mkdir(parents=True)
        (versions / "1").symlink_to(models[name].saved_model)
        found.append(versions)
    return found


class _Asked:
    """Requests to the container, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        parsed = urlparse(url)
        self._host, self._port = parsed.hostname or "127.0.0.1", parsed.port

    def load(self, name: str, versions: Path) -> float:
        return self._seconds("POST", "/models", {"model_name": name, "url": str(versions)})

    def unload(self, name: str) -> float:
        return self._seconds("DELETE", f"/models/{name}", None)

    def predict(self, name: str) -> float:
        return self._seconds("POST", f"/models/{name}/invoke", BODY)

    def connection(self) -> HTTPConnection:
        return HTTPConnection(self._host, self._port, timeout=CALL_SECONDS)

    def _seconds(self, method: str, path: str, body: Any) -> float:
        began, connection = time.perf_counter(), self.connection()
        told = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, told, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        words = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {words[:300]!r}")
        return time.perf_counter() - began


BODY = workload.body(workload.JSON, 1)


@contextmanager
def _callers(
    ask: _Asked, path: str, attributes: str = "", count: int = CALLERS
) -> Iterator[list[tuple[float, float]]]:
    """(when it was sent, milliseconds) of every request while the block runs."""
    found: list[tuple[float, float]] = []
    stop, wrong = threading.Event(), []
    headers = {"Content-Type": "application/json"}
    if attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes

    def call() -> None:
        connection = ask.connection()
        while not stop.is_set():
            began = time.perf_counter()
            connection.request("POST", path, BODY, headers)
            answer = connection.getresponse()
            words = answer.read()
            found.append((began, (time.perf_counter() - began) * 1000))
            if answer.status != 200:
                wrong.append(f"{path}: {answer.status} {words[:300]!r}")
                return
        connection.close()

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if wrong:
        raise RuntimeError(wrong[0])


def _swap(ask: _Asked, versions: Path) -> list[dict[str, Any]]:
    """The old model's latency before, while and after a large one is loaded, and while it goes."""
    marks = [("before", 0.0, time.perf_counter())]
    with _callers(ask, "/models/old/invoke") as found:
        time.sleep(STEADY_SECONDS)
        marks.append(("while another is loaded", 0.0, time.perf_counter()))
        loading = ask.load("new", versions)
        marks[-1] = (marks[-1][0], loading, marks[-1][2])
        marks.append(("with both loaded", 0.0, time.perf_counter()))
        time.sleep(STEADY_SECONDS)
        marks.append(("while it is unloaded", 0.0, time.perf_counter()))
        unloading = ask.unload("new")
        marks[-1] = (marks[-1][0], unloading, marks[-1][2])
        end = time.perf_counter()
    ends = [mark[2] for mark in marks[1:]] + [end]
    rows = []
    for (phase, seconds, start), until in zip(marks, ends, strict=True):
        of = [latency for began, latency in found if start <= began < until]
        p50, p99 = np.percentile(of, [50, 99]) if of else (None, None)
        row = {"phase": phase, "seconds": seconds or until - start, "requests": len(of)}
        rows.append({**row, "p50_ms": p50, "p99_ms": p99})
    return rows


def _back(ask: _Asked, versions: Path) -> dict[str, float]:
    """Until the old version answers: kept loaded, and loaded again."""
    kept = ask.predict("old")
    ask.unload("old")
    again = ask.load("old", versions) + ask.predict("old")
    return {"kept_ms": kept * 1000, "loaded_again_ms": again * 1000}


def _together(folder: Path, models: dict[str, Made], told: Told) -> list[dict[str, Any]]:
    """The small model's latency alone, and while a larger one is asked beside it."""
    archive = folder / "two.tar.gz"
    _pack_two(archive, models)
    found: list[dict[str, Any]] = []
    versions = [folder / "versions" / "small", folder / "versions" / "largest"]
    variables = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "small"}
    with launch(archive, variables) as one, launch(None, MULTI_MODEL) as each:
        separate = _Asked(each.url)
        for name, folder_of in zip(("small", "largest"), versions, strict=True):
            separate.load(name, folder_of)
        ways = {
            "one process": (_Asked(one.url), "/invocations", "tfs-model-name={}"),
            "a process each": (separate, "/models/{}/invoke", ""),
        }
        for repeat in range(REPEATS):
            for way, (ask, path, attributes) in ways.items():
                for busy in (False, True):
                    row = _beside(ask, path, attributes, busy)
                    found.append({"repeat": repeat, "way": way, "busy": busy, **row})
            told(f"swapping: two models, repeat {repeat + 1} of {REPEATS}")
    return found


def _beside(ask: _Asked, path: str, attributes: str, busy: bool) -> dict[str, float]:
    with _callers(ask, path.format("small"), attributes.format("small"), 1) as found:
        if busy:
            with _callers(ask, path.format("largest"), attributes.format("largest"), 1):
                time.sleep(STEADY_SECONDS)
        else:
            time.sleep(STEADY_SECONDS)
    p50, p99 = np.percentile([latency for _, latency in found], [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


def _pack_two(archive: Path, models: dict[str, Made]) -> None:
    import tarfile

    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name in ("small", "largest"):
            tar.add(models[name].saved_model, f"{name}/1")
