"""Chooses the model server for the next request.

The expected wait is measured latency x (outstanding requests + 1). A slow server gets few requests,
which check whether it is still slow; one that does not answer is set aside. docs/decisions/0010
compares this with other strategies.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

# Time constant in seconds: a latency this old counts for 1/e.
MEMORY_SECONDS = 0.25
LEAST_WEIGHT = 0.1
# A server that would not be chosen is tried at most once a second, and with no more than one request
# in 200, unless it has not been tried for ten seconds.
PROBE_SECONDS = 1.0
PROBE_REQUESTS = 200
PROBE_ANYWAY_SECONDS = 10.0


@dataclass
class _Server:
    latency_seconds: float = 0.0
    """Measured latency; 0 until it is measured, so that the server is tried."""
    measured_at: float = -math.inf
    outstanding: int = 0
    answers: bool = True
    tried_at: float = -math.inf
    tried_as: int = 0
    """Number of the request, counted from the first, at which it was last tried."""


class ServerChoice:
    """Call `take` for each request and `give_back` after it. It is safe between threads."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = [_Server() for _ in range(count)]
        self._clock = clock
        self._requests = 0
        self._lock = threading.Lock()

    def take(self, avoid: int | None = None) -> int:
        """The server for the next request; it is `avoid` only if there is no other."""
        if len(self._servers) == 1:
            return 0
        with self._lock:
            self._requests += 1
            now = self._clock()
            number = self._number(now, avoid)
            server = self._servers[number]
            server.outstanding += 1
            server.tried_at, server.tried_as = now, self._requests
            return number

    def give_back(self, number: int, seconds: float | None) -> None:
        """Ends a request; `seconds` is None if its duration says nothing about the server."""
        if len(self._servers) == 1:
            return
        with self._lock:
            server = self._servers[number]
            server.outstanding -= 1
            if seconds is None:
                return
            now = self._clock()
            # The older the last measurement, the more a new one counts.
            weight = max(LEAST_WEIGHT, 1 - math.exp((server.measured_at - now) / MEMORY_SECONDS))
            server.latency_seconds += weight * (seconds - server.latency_seconds)
            server.measured_at = now

    def set_aside(self, number: int) -> bool:
        """Marks a server as not answering. Returns False if it was marked already."""
        with self._lock:
            answered, self._servers[number].answers = self._servers[number].answers, False
            return answered

    def bring_back(self, number: int) -> None:
        """Marks a server as answering again; its latency is measured anew."""
        with self._lock:
            server = self._servers[number]
            server.answers = True
            server.latency_seconds, server.measured_at = 0.0, -math.inf

    def _number(self, now: float, avoid: int | None) -> int:
        every = range(len(self._servers))
        able = [n for n in every if self._servers[n].answers and n != avoid]
        # If no server answers, requests must still find out when one does again.
        able = able or [n for n in every if n != avoid]
        due = [n for n in able if self._due(self._servers[n], now)]
        if due:
            return min(due, key=lambda n: self._servers[n].tried_at)
        # One request measures an unknown server; further requests wait for it.
        slowest = max(server.latency_seconds for server in self._servers)
        return min(able, key=lambda n: _wait(self._servers[n], slowest))

    def _due(self, server: _Server, now: float) -> bool:
        age = now - server.tried_at
        if server.outstanding or age < PROBE_SECONDS:
            return False
        asked = self._requests - server.tried_as
        return asked >= PROBE_REQUESTS or age >= PROBE_ANYWAY_SECONDS


def _wait(server: _Server, slowest: float) -> tuple[float, int, float]:
    latency = server.latency_seconds
    if server.measured_at == -math.inf and server.outstanding:
        latency = slowest
    return latency * (server.outstanding + 1), server.outstanding, server.tried_at
