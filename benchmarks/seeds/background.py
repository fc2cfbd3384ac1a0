"""Callers in the background, each sending one request after the other, while something happens."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller

BODY = workload.body(workload.JSON, 1)


class ModelPath(NamedTuple):
    """`attributes`: SageMaker's custom ones, for an endpoint with several models in one process."""

    path: str
    attributes: str = ""


class BackgroundCallers:
    """`target` may be changed while they call: the next requests go there."""

    def __init__(self, target: ModelPath) -> None:
        self.target, self.stop = target, threading.Event()
        self.failures: list[str] = []
        self._answers: list[tuple[ModelPath, float, float]] = []

    def between(self, start: float, end: float) -> dict[str, float]:
        """Latencies of what was under way in this time, by time.perf_counter().

        Also of what was sent before it: that is what waits when everything stands still.
        """
        answers = [*self._answers]
        times = [(began, ended) for _, began, ended in answers if began < end and ended > start]
        if not times:
            raise RuntimeError("nobody was answered: the time was too short")
        p50, p99 = np.percentile([(ended - began) * 1000 for began, ended in times], [50, 99])
        return {"requests": len(times), "p50_ms": float(p50), "p99_ms": float(p99)}

    def last(self, target: ModelPath) -> float:
        """Time of its last answer."""
        return max(ended for path, _, ended in self._answers if path == target)

    def call(self, url: str) -> None:
        try:
            caller = EndpointCaller(url)
            while not self.stop.is_set():
                target, began = self.target, time.perf_counter()
                status, text = caller.ask(BODY, workload.JSON, target.attributes, path=target.path)
                self._answers.append((target, began, time.perf_counter()))
                if status != 200:
                    self.failures.append(f"{target.path}: {status} {text[:300]!r}")
                    break
            caller.close()
        except OSError as problem:
            self.failures.append(f"{self.target.path}: {problem!r}")


@contextmanager
def background_callers(url: str, target: ModelPath, *, count: int) -> Iterator[BackgroundCallers]:
    """Raises RuntimeError at the end where one of them was refused."""
    callers = BackgroundCallers(target)
    threads = [threading.Thread(target=callers.call, args=[url]) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield callers
    finally:
        callers.stop.set()
        for thread in threads:
            thread.join()
    if callers.failures:
        raise RuntimeError(callers.failures[0])
