"""A simulated system, measured as a real one is: steps, intervals, a curve. Labelled so."""

import numpy as np

from benchmarks.queueing.simulation import simulate
from benchmarks.queueing.system import System
from servable.load.latencies import Latencies
from servable.load.measurement import Asked, LoadCurve, LoadStep, Loop
from servable.load.precision import WINDOW_SECONDS, percentile, throughput
from servable.load.schedule import Schedule

ASKED = Asked(
    target="simulated",
    address="benchmarks/queueing",
    started_at="2026-11-21T00:00:00Z",
    machine="simulated",
)
_BLOCKS = 10


def step(system: System, *, loop: Loop, load: float, seconds: float, seed: int) -> LoadStep:
    users = round(load) if loop == "closed" else None
    rate = load if loop == "open" else None
    run = simulate(system, users=users, rate_rps=rate, seconds=seconds, seed=seed)
    windows = np.bincount(
        (run.finished_at / WINDOW_SECONDS).astype(int), minlength=round(seconds / WINDOW_SECONDS)
    )
    in_order = run.latencies_ms[np.argsort(run.began_at, kind="stable")]
    pieces = np.array_split(in_order, _BLOCKS)
    blocks = [Latencies.of(piece.tolist()) for piece in pieces]
    return LoadStep(
        users=users,
        rate_rps=rate,
        warm_up_seconds=seconds / 5,
        seconds=seconds,
        throughput_rps=throughput(windows, WINDOW_SECONDS),
        latencies=sum(blocks, start=Latencies()),
        p95_interval_ms=percentile(blocks, 95),
        p99_interval_ms=percentile(blocks, 99),
        send_lags=Latencies(),
        generator_cpu_share=0.0,
    )


def curve(system: System, schedule: Schedule, *, seconds: float, seed: int) -> LoadCurve:
    found = LoadCurve(asked=ASKED, loop=schedule.loop, steps=())
    while (load := schedule.next(found.steps)) is not None:
        number = 1000 * seed + len(found.steps)
        one = step(system, loop=schedule.loop, load=load, seconds=seconds, seed=number)
        found = found.with_step(one)
    return found
