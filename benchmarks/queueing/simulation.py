"""Discrete events: requests through workers, model servers and cores.

    run = simulate(system, users=16, seconds=60, seed=0)
    run.throughput_rps, run.latencies_ms

About 20 microseconds of one core for each request. The same seed gives the same numbers.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.queueing.system import SimulatedBatching, System

Event = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    seconds: float
    """Simulated, warm-up excluded."""
    finished_at: NDArray[np.float64]
    """Seconds since the warm-up ended, of each request that ended in the time, in order."""
    began_at: NDArray[np.float64]
    """Likewise, of each request that began in the time, by when it ended."""
    latencies_ms: NDArray[np.float64]
    """Latencies of the requests that began in the measured time; all of them are waited for."""

    @property
    def throughput_rps(self) -> float:
        return len(self.finished_at) / self.seconds


def simulate(
    system: System,
    *,
    users: int | None = None,
    rate_rps: float | None = None,
    seconds: float,
    warm_up_seconds: float | None = None,
    seed: int = 0,
) -> SimulatedRun:
    """Closed loop with `users`, or arrivals at random at `rate_rps`. Raises MemoryError.

    `warm_up_seconds` None: a fifth of `seconds`.
    """
    if (users is None) == (rate_rps is None):
        raise ValueError("give users or rate_rps, one of them")
    if not system.fits:
        raise MemoryError(f"{system.needed_mib:.0f} MiB of {system.memory_mib:.0f} MiB")
    warm_up = seconds / 5 if warm_up_seconds is None else warm_up_seconds
    return _Simulation(system, seed).run(users, rate_rps, warm_up, seconds)


class _Cores:
    """The computer's cores, shared equally by whatever has work: one heap, in virtual time.

    Virtual time runs as fast as each thread does: a job that needs w of it is done when it has
    advanced by w, however often the sharing changed meanwhile. So a change costs one heap operation.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._heap: list[tuple[float, int, int, Event]] = []
        self._threads = 0
        self._virtual = 0.0
        self._now = 0.0
        self._speed = 1.0
        self._number = 0

    def run(self, now: float, work: float, threads: int, done: Event) -> None:
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

    def finish(self, now: float) -> Event:
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


class _Request:
    __slots__ = ("began",)

    def __init__(self, began: float) -> None:
        self.began = began


class _Server:
    """One model server: a queue, and so many calls at once."""

    __slots__ = ("busy", "queue", "timer")

    def __init__(self) -> None:
        self.busy = 0
        self.queue: deque[_Request] = deque()
        self.timer = 0


class _Simulation:
    def __init__(self, system: System, seed: int) -> None:
        self._system, self._work = system, system.work
        self._random = np.random.default_rng(seed)
        self._drawn: list[float] = []
        self._cores = _Cores(system)
        self._timers: list[tuple[float, int, Event]] = []
        self._number = 0
        self._now = 0.0
        self._free_workers = system.workers
        self._waiting: deque[Event] = deque()
        self._servers = [_Server() for _ in range(system.processes)]
        self._ended: list[tuple[float, float]] = []
        self._closed = False
        self._open = True

    def run(
        self, users: int | None, rate: float | None, warm_up: float, seconds: float
    ) -> SimulatedRun:
        self._closed = users is not None
        if users is not None:
            for _ in range(users):
                self._arrive()
        else:
            self._arrive_at_random(1 / (rate or 1))
        until = warm_up + seconds
        timers, cores = self._timers, self._cores
        while True:
            timer_at = timers[0][0] if timers else float("inf")
            core_at = cores.next_at()
            now = min(timer_at, core_at)
            if now > until:
                # Nobody asks any more, and those who have asked are answered.
                self._closed, self._open = False, False
                if now == float("inf"):
                    break
            self._now = now
            event = cores.finish(now) if core_at <= timer_at else heapq.heappop(timers)[2]
            event()
        ended, began = np.array(self._ended).reshape(-1, 2).T
        asked = began >= warm_up
        return SimulatedRun(
            seconds=seconds,
            finished_at=ended[(ended >= warm_up) & (ended < until)] - warm_up,
            began_at=began[asked] - warm_up,
            latencies_ms=(ended - began)[asked] * 1000,
        )

    # --- arrivals

    def _arrive_at_random(self, gap_seconds: float) -> None:
        def arrive() -> None:
            if not self._open:
                return
            self._later(float(self._random.exponential(gap_seconds)), arrive)
            self._arrive()

        self._later(float(self._random.exponential(gap_seconds)), arrive)

    def _arrive(self) -> None:
        request = _Request(self._now)
        self._with_worker(lambda: self._handle(request, lambda: self._ask(request)))

    # --- a worker's part: half before the model is asked, half after

    def _with_worker(self, then: Event) -> None:
        if self._free_workers:
            self._free_workers -= 1
            then()
        else:
            self._waiting.append(then)

    def _leave_worker(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free_workers += 1

    def _handle(self, request: _Request, then: Event) -> None:
        if self._work.handler_ms == 0:
            then()
            return
        self._cores.run(self._now, self._drawn_of(self._work.handler_ms / 2), 1, then)

    # --- a model server's part

    def _ask(self, request: _Request) -> None:
        # As the container does it: one of them, at random.
        which = int(self._random.integers(len(self._servers))) if len(self._servers) > 1 else 0
        server = self._servers[which]
        server.queue.append(request)
        if not self._system.workers_wait:
            self._leave_worker()
        self._serve(server)
        if server.queue and (batching := self._system.batching):
            self._set_timer(server, batching)

    def _serve(self, server: _Server, *, due: bool = False) -> None:
        batching = self._system.batching
        at_once = batching.threads if batching else self._system.calls_at_once
        while server.queue and server.busy < at_once:
            most = batching.max_requests if batching else 1
            if batching and len(server.queue) < most and not due:
                oldest = server.queue[0]
                if self._now < oldest.began + batching.timeout_ms / 1000 - 1e-12:
                    return
            taken = [server.queue.popleft() for _ in range(min(most, len(server.queue)))]
            due = False
            server.busy += 1
            work = self._drawn_of(self._work.call_ms + self._work.row_ms * len(taken))
            self._cores.run(
                self._now,
                work / self._system.speedup,
                self._system.threads_per_call,
                lambda taken=taken: self._answer(server, taken),  # type: ignore[misc]
            )

    def _set_timer(self, server: _Server, batching: SimulatedBatching) -> None:
        """A batch that does not fill starts when its first request has waited long enough."""
        server.timer += 1
        mine = server.timer
        wait = server.queue[0].began + batching.timeout_ms / 1000 - self._now

        def ring() -> None:
            if mine == server.timer:
                self._serve(server)
                if server.queue and server.queue[0].began > self._now - batching.timeout_ms / 1000:
                    self._set_timer(server, batching)

        self._later(max(0.0, wait), ring)

    def _answer(self, server: _Server, taken: list[_Request]) -> None:
        server.busy -= 1
        for request in taken:
            end = lambda request=request: self._end(request)  # noqa: E731
            if self._system.workers_wait:
                self._handle(request, end)
            else:
                self._with_worker(lambda request=request, end=end: self._handle(request, end))  # type: ignore[misc]
        self._serve(server)
        if server.queue and (batching := self._system.batching):
            self._set_timer(server, batching)

    def _end(self, request: _Request) -> None:
        self._leave_worker()
        self._ended.append((self._now, request.began))
        if self._closed:
            self._arrive()

    # --- time

    def _later(self, seconds: float, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._timers, (self._now + seconds, self._number, event))

    def _drawn_of(self, mean_ms: float) -> float:
        if self._work.spread == "constant":
            return mean_ms / 1000
        if not self._drawn:
            self._drawn = self._random.exponential(size=1024).tolist()
        return self._drawn.pop() * mean_ms / 1000
