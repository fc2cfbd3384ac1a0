"""Callers in the background, each asking one request after the other, while something happens."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller

BODY = workload.body(workload.JSON, 1)


@dataclass(frozen=True)
class ModelPath:
    """`attributes`: SageMaker's custom ones, for an endpoint with several models in one process."""

    path: str
    attributes: str = ""


@dataclass(frozen=True)
class _Answered:
    target: ModelPath
    began: float
    ended: float


class BackgroundCallers:
    """`target` may be changed while they ask: the next requests go there."""

    def __init__(self, target: ModelPath) -> None:
        self.target = target
        self._answered: list[_Answered] = []
        self._wrong: list[str] = []
        self._stop = threading.Event()

    def between(self, start: float, end: float) -> dict[str, float]:
        """Latencies of what was under way in this time, by time.perf_counter().

        Also of what was sent before it: that is what waits when everything stands still.
        """
        under_way = [one for one in self._answered if one.began < end and one.ended > start]
        of = [(one.ended - one.began) * 1000 for one in under_way]
        if not of:
            raise RuntimeError("nobody was answered: the time was too short")
        p50, p99 = np.percentile(of, [50, 99])
        return {"requests": len(of), "p50_ms": float(p50), "p99_ms": float(p99)}

    def last(self, target: ModelPath) -> float:
        """When it answered for the last time."""
        return max(one.ended for one in self._answered if one.target == target)

    def _call(self, url: str) -> None:
        try:
            caller = EndpointCaller(url)
            while not self._stop.is_set():
                target, began = self.target, time.perf_counter()
                status, words = caller.ask(BODY, workload.JSON, target.attributes, path=target.path)
                self._answered.append(_Answered(target, began, time.perf_counter()))
                if status != 200:
                    self._wrong.append(f"{target.path}: {status} {words[:300]!r}")
                    break
            caller.close()
        except OSError as problem:
            self._wrong.append(f"{self.target.path}: {problem!r}")


@contextmanager
def background_callers(url: str, target: ModelPath, *, count: int) -> Iterator[BackgroundCallers]:
    """Raises RuntimeError at the end where one of them was refused."""
    callers = BackgroundCallers(target)
    threads = [threading.Thread(target=callers._call, args=[url]) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield callers
    finally:
        callers._stop.set()
        for thread in threads:
            thread.join()
    if callers._wrong:
        raise RuntimeError(callers._wrong[0])
