"""Callers in the background, each asking one request after the other, while something happens."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlparse

import numpy as np

from benchmarks.serving import workload

BODY = workload.body(workload.JSON, 1)
# Longer than it takes to load the largest model while others ask.
CALL_SECONDS = 60


@dataclass(frozen=True)
class Target:
    """`attributes`: SageMaker's custom ones, for an endpoint with several models in one process."""

    path: str
    attributes: str = ""


@dataclass(frozen=True)
class Answered:
    target: Target
    began: float
    ended: float


class Crowd:
    """`target` may be changed while they ask: the next requests go there."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answered: list[Answered] = []
        self._wrong: list[str] = []
        self._stop = threading.Event()

    def between(self, start: float, end: float) -> dict[str, float]:
        """Latencies of what was under way in this time, by time.perf_counter().

        Also of what was sent before it: that is what waits when everything stands still.
        """
        under_way = [one for one in self.answered if one.began < end and one.ended > start]
        of = [(one.ended - one.began) * 1000 for one in under_way]
        if not of:
            raise RuntimeError("nobody was answered: the time was too short")
        p50, p99 = np.percentile(of, [50, 99])
        return {"requests": len(of), "p50_ms": float(p50), "p99_ms": float(p99)}

    def last(self, target: Target) -> float:
        """When it answered for the last time."""
        return max(one.ended for one in self.answered if one.target == target)

    def _call(self, url: str) -> None:
        try:
            self._ask(url)
        except (OSError, HTTPException) as problem:
            self._wrong.append(f"{self.target.path}: {problem!r}")

    def _ask(self, url: str) -> None:
        connection = connected(url)
        while not self._stop.is_set():
            target, began = self.target, time.perf_counter()
            headers = {"Content-Type": "application/json"}
            if target.attributes:
                headers["X-Amzn-SageMaker-Custom-Attributes"] = target.attributes
            connection.request("POST", target.path, BODY, headers)
            answer = connection.getresponse()
            words = answer.read()
            self.answered.append(Answered(target, began, time.perf_counter()))
            if answer.status != 200:
                self._wrong.append(f"{target.path}: {answer.status} {words[:300]!r}")
                return
        connection.close()


@contextmanager
def crowd(url: str, target: Target, *, count: int) -> Iterator[Crowd]:
    """Raises RuntimeError at the end where one of them was refused."""
    found = Crowd(target)
    threads = [threading.Thread(target=found._call, args=[url]) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found._stop.set()
        for thread in threads:
            thread.join()
    if found._wrong:
        raise RuntimeError(found._wrong[0])


def connected(url: str) -> HTTPConnection:
    parsed = urlparse(url)
    return HTTPConnection(parsed.hostname or "127.0.0.1", parsed.port, timeout=CALL_SECONDS)
