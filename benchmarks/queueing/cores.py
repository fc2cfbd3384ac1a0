"""The machine's cores, shared equally by whatever has work: one heap, in virtual time.

Virtual time runs as fast as each thread does: a job that needs w of it is done when it has
advanced by w, however often the sharing changed meanwhile. So a change costs one heap operation.
"""

import heapq
from collections.abc import Callable

from benchmarks.queueing.system import System

Done = Callable[[], None]


class Cores:
    def __init__(self, system: System) -> None:
        self._system = system
        self._heap: list[tuple[float, int, int, Done]] = []
        self._threads = 0
        self._virtual = 0.0
        self._now = 0.0
        self._speed = 1.0
        self._number = 0

    def run(self, now: float, work: float, threads: int, done: Done) -> None:
        """`work`: seconds on cores of its own. `done` is called when that much has been given."""
        self._advance(now)
        self._number += 1
        heapq.heappush(self._heap, (self._virtual + work, self._number, threads, done))
        self._share(threads)

    def next_at(self) -> float:
        """When the next job will be done, if nothing changes; infinity where nothing runs."""
        if not self._heap:
            return float("inf")
        return self._now + max(0.0, self._heap[0][0] - self._virtual) / self._speed

    def finish(self, now: float) -> Done:
        """Takes the job off that is done at `now`."""
        self._advance(now)
        until, _, threads, done = heapq.heappop(self._heap)
        self._virtual = max(self._virtual, until)
        self._share(-threads)
        return done

    def _advance(self, now: float) -> None:
        self._virtual += (now - self._now) * self._speed
        self._now = now

    def _share(self, more: int) -> None:
        self._threads += more
        self._speed = self._system.speed(self._threads)
