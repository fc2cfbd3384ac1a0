"""Callers in the background, each sending one request after the other, while something happens."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
