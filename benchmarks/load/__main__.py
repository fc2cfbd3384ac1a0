"""What the load generator can do: `make bench-load`. Writes result.json and docs/performance.md."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.command import Told, in_turn, machine, main
from benchmarks.load.generators import locust, ours, wrk, wrk_version
from benchmarks.load.report import LOCUST, OURS, RESULT, WRK
from benchmarks.queueing.known import mmc_highest_rate
from benchmarks.queueing.measured import curve
from benchmarks.queueing.system import System, Work
from servable.load.knee import knee, saturation
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.pace import Pace
from servable.load.schedule import Schedule
from servable.tune.objective import Objective

# One JSON row of 256 numbers: 2 KB.
BODY = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
ROUNDS = 5
USERS = 16
PACE = Pace(warm_up_seconds=1.0, least_seconds=5.0, most_seconds=5.0, arrivals="constant")
# Lognormal delays of the server that writes them down: p99 40 ms.
MEDIAN_MS, SIGMA = 10.0, 0.6
# Requests per second of the open loop, by server; and Locust's users for it: enough that each is
# free again when its next request is due.
RATES = {"null": 1500.0, "known": 400.0}
LOCUST_USERS = 64
_LOOPS: tuple[tuple[Loop, tuple[str, ...]], ...] = (
    ("closed", (OURS, LOCUST, WRK)),
    ("open", (OURS, LOCUST)),  # wrk has none
)
# (generator, server, loop)
RUNS = [
    (generator, server, loop)
    for server in RATES
    for loop, generators in _LOOPS
    for generator in generators
]
# The simulated queues.
CALL_MS = 10.0
SERVICE_RATE = 1000 / CALL_MS
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
# As many answers as ten seconds of a thousand in a second give.
REQUESTS = 10_000
# The slowest of them settles within seconds.
LEAST_SECONDS = 20.0


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    cores: tuple[int | None, int | None] = (None, None)
    if (os.cpu_count() or 1) > 1 and hasattr(os, "sched_setaffinity"):
        first, second, *_ = sorted(os.sched_getaffinity(0))
        cores = (first, second)
    version = wrk_version()
    if version is None:
        told(
            "wrk is not installed (Debian: apt-get install wrk); the others are measured without it"
        )
    ways = [one for one in RUNS if version or one[0] != WRK]
    runs = []
    with ExitStack() as held:
        delays = (str(MEDIAN_MS), str(SIGMA))
        servers = {
            "null": held.enter_context(_server(cores[1])),
            "known": held.enter_context(_server(cores[1], *delays)),
        }
        held.enter_context(_on_core(cores[0]))
        generator = held.enter_context(
            LoadGenerator(container(servers["null"].url), [BODY], loop="closed")
        )
        for number, way in in_turn(ways, ROUNDS):
            run = _run(way, servers[way[1]], generator, folder)
            runs.append(run | {"round": number})
            told(f"round {number + 1} of {ROUNDS}: {_shown(run)}")
    told("the knee of simulated queues")
    return {
        "machine": before,
        "body_bytes": len(BODY.content),
        "seconds": PACE.most_seconds,
        "users": USERS,
        "locust_users": LOCUST_USERS,
        "rates": RATES,
        "median_ms": MEDIAN_MS,
        "sigma": SIGMA,
        "versions": {LOCUST: metadata.version("locust"), WRK: version},
        "runs": runs,
        "queues": _queues(),
    }


def _run(
    way: tuple[str, str, Loop], server: "_Server", generator: LoadGenerator, folder: Path
) -> dict[str, Any]:
    name, of_server, loop = way
    rate = RATES[of_server] if loop == "open" else None
    found: dict[str, Any]
    if name == OURS:
        found = ours(generator, server.url, BODY, loop, rate or USERS, PACE)
    elif name == LOCUST:
        users = LOCUST_USERS if rate else USERS
        found = locust(server.url, BODY, users, rate, PACE.most_seconds)
    else:
        found = wrk(server.url, BODY, USERS, PACE.most_seconds, folder)
    found["cpu_ms_per_request"] = 1000 * found["cpu_share"] / found["rps"]
    known = {"known": server.delays()} if of_server == "known" else {}
    return {"generator": name, "server": of_server, "loop": loop} | found | known


def _shown(run: dict[str, Any]) -> str:
    late, known = run.get("send_lag_p99_ms"), run.get("known")
    return (
        f"{run['generator']:6} {run['server']:5} {run['loop']:6} {run['rps']:7,.0f} requests/s, "
        + (f"p99 {run['p99_ms']:.1f} ms of {known['p99_ms']:.1f} ms, " if known else "")
        + (f"sent late p99 {late:.2f} ms, " if late is not None else "")
        + f"failed {run['failed']}"
    )


class _Server:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self.url = f"http://127.0.0.1:{int(self._output.readline())}"

    def delays(self) -> dict[str, float]:
        """How long it held the answers since it was last asked; it starts them again."""
        self._input.write(b"\n")
        self._input.flush()
        parsed: dict[str, float] = json.loads(self._output.readline())
        return parsed


@contextmanager
def _server(core: int | None, *delays: str) -> Iterator[_Server]:
    """`core` None: wherever there is room."""
    command = [sys.executable, "-m", "benchmarks.load.null_server", *delays]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield _Server(process)


@contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """What is started in the block stays on that core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _queues() -> list[dict[str, Any]]:
    """How near the knee is to the known answer, on simulated queues."""
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


if __name__ == "__main__":
    sys.exit(main(measured, RESULT))
