"""M/M/c queues, simulated and known exactly: they test the knee, which no real endpoint tells.

    run = simulate(servers=4, mean_ms=10.0, load=320, loop="open", seconds=60, seed=0)

Their numbers are a model's, never a measurement's: what shows them says "simulated".
"""

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from servable.load.load_test import Schedule
from servable.measured.measurement import LoadCurve, LoadStep, Loop, MeasuredTarget
from servable.measured.precision import (
    WINDOW_SECONDS,
    Latencies,
    compute_percentile,
    compute_throughput,
)
from servable_scaling.rehearsal.fleet import compute_erlang_c

SIMULATED = MeasuredTarget(
    target="simulated",
    address="tests/servable/tune/queueing.py",
    started_at="2026-11-21T00:00:00Z",
    machine="simulated",
)
BLOCKS = 10
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    seconds: float
    """Simulated, warm-up excluded."""
    finished_at: Values
    """Seconds since the warm-up ended, of each request that ended in the time."""
    latencies_ms: Values
    """Latencies of the requests that began in the time, in the order in which they began."""

    @property
    def throughput_rps(self) -> float:
        return len(self.finished_at) / self.seconds


def simulate(
    servers: int, mean_ms: float, *, load: float, loop: Loop, seconds: float, seed: int = 0
) -> SimulatedRun:
    """Simulate a closed loop of `load` users, or arrivals at random; a fifth of `seconds` warms up."""
    chance = np.random.default_rng(seed)
    warm_up = seconds / 5
    arrivals = [0.0] * round(load) if loop == "closed" else [float(chance.exponential(1 / load))]
    free_at = [0.0] * servers
    requests: list[tuple[float, float]] = []
    while arrivals[0] < warm_up + seconds:
        began = heapq.heappop(arrivals)
        ended = max(began, free_at[0]) + float(chance.exponential(mean_ms / 1000))
        heapq.heapreplace(free_at, ended)
        requests.append((began, ended))
        following = ended if loop == "closed" else began + float(chance.exponential(1 / load))
        heapq.heappush(arrivals, following)
    begins, ends = np.array(requests).T
    in_time = (ends >= warm_up) & (ends < warm_up + seconds)
    latencies_ms = 1000 * (ends - begins)[begins >= warm_up]
    return SimulatedRun(
        seconds=seconds, finished_at=ends[in_time] - warm_up, latencies_ms=latencies_ms
    )


def curve(
    servers: int, mean_ms: float, schedule: Schedule, *, seconds: float, seed: int
) -> LoadCurve:
    """Measure a simulated queue as an endpoint is: steps, intervals, a curve."""
    measured = LoadCurve(asked=SIMULATED, loop=schedule.loop, steps=())
    while (load := schedule.choose_next_load(measured.steps)) is not None:
        number = 1000 * seed + len(measured.steps)
        run = simulate(
            servers, mean_ms, load=load, loop=schedule.loop, seconds=seconds, seed=number
        )
        step = _step(run, schedule.loop, load)
        measured = replace(measured, steps=(*measured.steps, step))
    return measured


def _step(run: SimulatedRun, loop: Loop, load: float) -> LoadStep:
    windows = np.bincount(
        (run.finished_at / WINDOW_SECONDS).astype(int),
        minlength=round(run.seconds / WINDOW_SECONDS),
    )
    blocks = [
        Latencies.from_milliseconds(block.tolist())
        for block in np.array_split(run.latencies_ms, BLOCKS)
    ]
    return LoadStep(
        users=round(load) if loop == "closed" else None,
        rate_rps=load if loop == "open" else None,
        warm_up_seconds=run.seconds / 5,
        seconds=run.seconds,
        throughput_rps=compute_throughput(windows, WINDOW_SECONDS),
        latencies=sum(blocks, start=Latencies()),
        p95_interval_ms=compute_percentile(blocks, 95),
        p99_interval_ms=compute_percentile(blocks, 99),
        send_lags=Latencies(),
        generator_cpu_share=0.0,
    )


# Queues whose answers are known exactly.
# Source: Kleinrock, Queueing Systems, volume 1 (1975), chapter 3.


def mmc_latency_above(seconds: float, *, rate: float, service_rate: float, servers: int) -> float:
    """P(waiting + service > seconds) in M/M/c, first come first served."""
    waits = compute_erlang_c(servers, rate / service_rate)
    spare = servers * service_rate - rate
    if math.isclose(spare, service_rate):
        grown = waits * service_rate * seconds
        return (1 + grown) * math.exp(-service_rate * seconds)
    mixed = waits * service_rate / (service_rate - spare)
    return (1 - mixed) * math.exp(-service_rate * seconds) + mixed * math.exp(-spare * seconds)


def mmc_highest_rate(percent: float, most_ms: float, *, service_rate: float, servers: int) -> float:
    """The highest arrival rate at which that percentile of the latency is at most `most_ms`."""
    low, high = 0.0, servers * service_rate
    for _ in range(60):
        rate = (low + high) / 2
        above = mmc_latency_above(
            most_ms / 1000, rate=rate, service_rate=service_rate, servers=servers
        )
        low, high = (rate, high) if above <= 1 - percent / 100 else (low, rate)
    return low
