"""One body asked for again and again: how long an answer takes, and what it costs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.serving.callers import Caller
from benchmarks.serving.cost import Cpu


@dataclass(frozen=True)
class Cost:
    """Of one request."""

    cpu_ms: float
    model_server_ms: float
    """Of `cpu_ms`."""
    latency_ms: float


def cost(url: str, body: bytes, form: str, *, seconds: float, cpu: Callable[[], Cpu]) -> Cost:
    """One request after the other on one connection; the median latency. Raises RuntimeError."""
    caller = Caller(url)
    for _ in range(3):
        answer(caller, body, form)
    latencies, before = [], cpu()
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        answer(caller, body, form)
        latencies.append((time.perf_counter() - began) * 1000)
    after, count = cpu(), len(latencies)
    return Cost(
        cpu_ms=(after.whole_ms - before.whole_ms) / count,
        model_server_ms=(after.model_server_ms - before.model_server_ms) / count,
        latency_ms=median(latencies),
    )


def answer(caller: Caller, body: bytes, form: str) -> bytes:
    status, found = caller.ask(body, form)
    if status != 200:
        raise RuntimeError(f"{form}: {status} {found[:300]!r}")
    return found
