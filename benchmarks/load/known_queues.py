"""How near the knee is to the known answer, on simulated queues."""

from typing import Any

from benchmarks.queueing.known import mmc_highest_rate
from benchmarks.queueing.measured import curve
from benchmarks.queueing.system import System, Work
from servable.load.knee import knee, saturation
from servable.load.schedule import Schedule
from servable.tune.objective import Objective

CALL_MS = 10.0
SERVICE_RATE = 1000 / CALL_MS
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
# As many answers as ten seconds of a thousand in a second give.
REQUESTS = 10_000
# The slowest of them settles within seconds.
LEAST_SECONDS = 20.0


def measured() -> list[dict[str, Any]]:
    found = []
    for cores, most_ms in QUEUES:
        system = System(cores=cores, workers=10**9, calls_at_once=cores, work=Work(call_ms=CALL_MS))
        objective = Objective(most_ms=most_ms)
        truth = mmc_highest_rate(99, most_ms, service_rate=SERVICE_RATE, servers=cores)
        seconds = max(LEAST_SECONDS, REQUESTS / SERVICE_RATE / cores)
        for seed in SEEDS:
            schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
            one = curve(system, schedule, seconds=seconds, seed=100 + seed)
            at, full = knee(one, objective), saturation(one)
            if at is None or full is None:
                raise RuntimeError(f"no knee of {cores} cores, seed {seed}")
            found.append(
                {
                    "cores": cores,
                    "p99_ms": most_ms,
                    "seed": seed,
                    "steps": len(one.steps),
                    "known_rps": truth,
                    "knee_rps": at.rps.value,
                    "low_rps": at.rps.low,
                    "high_rps": at.rps.high,
                    "full_rps": full.rps.value,
                    "known_full_rps": cores * SERVICE_RATE,
                }
            )
    return found
