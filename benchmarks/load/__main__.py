"""Accuracy and cost of the load generator: `make bench-load`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import workload
from benchmarks.frame import ROOT, Log, Result, in_turn, machine, main, rounds
from benchmarks.load.null_server import NullServer, null_server
from benchmarks.queueing import curve, mmc_highest_rate
from benchmarks.tables import Bound, quotients, spread, table, target
from infra.parameters.loading import ValidFile, load
from servable.load.knee import knee, saturation
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import Body, container
from servable.load.measurement import Loop
from servable.load.objective import Objective
from servable.load.pace import Pace
from servable.load.schedule import Schedule
from servable.serve.serve import prepared
from servable_local.container.launch import launch

OURS, LOCUST = "ours", "Locust"
# What is wanted. Source: the requirements of this project.
MOST_ERROR = 0.05
# One JSON row of 256 numbers: 2 KB.
BODY = Body(content=workload.body(workload.JSON, 1), content_type=workload.JSON)
ROUNDS, USERS = 5, 16
PACE = Pace(warm_up_seconds=1.0, least_seconds=5.0, most_seconds=5.0, arrivals="constant")
# Lognormal delays of the server that writes them down: p99 40 ms.
MEDIAN_MS, SIGMA = 10.0, 0.6
# Requests per second of the open loop, by server; and Locust's users for it: enough that each is
# free again when its next request is due.
RATES = {"null": 1500.0, "known": 400.0}
LOCUST_USERS = 64
# (generator, server, loop)
Run = tuple[str, str, Loop]
LOOPS: tuple[Loop, ...] = ("closed", "open")
RUNS: list[Run] = [*product((OURS, LOCUST), RATES, LOOPS)]
# examples/ranker as in environments/local.toml: its answers take cores of the generator.
RANKER = Body(
    content=(ROOT / "examples/ranker/golden/request-columnar.json").read_bytes(),
    content_type=workload.JSON,
)
# The simulated queues.
CALL_MS = 10.0
# (cores, p99 in ms): from a knee far below saturation to one close to it.
QUEUES = ((1, 150.0), (2, 80.0), (4, 70.0), (8, 60.0), (16, 60.0))
SEEDS = range(5)
# As many answers as 1,000 in a second give in 10 s; the slowest settles in seconds.
REQUESTS, LEAST_SECONDS = 10_000, 20.0


def ours(
    generator: LoadGenerator, url: str, body: Body, loop: Loop, load: float, pace: Pace
) -> Any:
    generator.aim(container(url), [body], loop=loop)
    step = generator.step(load, pace)
    return {
        "sent": step.sent,
        "failed": step.failed,
        "errors": step.errors | ({"timeout": step.timeouts} if step.timeouts else {}),
        "rps": step.throughput_rps.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
        "mean_ms": step.latencies.sum_ms / max(1, step.latencies.count),
        "send_lag_p50_ms": step.send_lags.p50_ms,
        "send_lag_p99_ms": step.send_lag_p99_ms,
        "cpu_share": step.generator_cpu_share,
    }


def locust(url: str, body: Body, users: int, rate_rps: float | None, seconds: float) -> Any:
    """`rate_rps` None: a closed loop."""
    command = [sys.executable, "-m", "benchmarks.load.fast_http_user", url]
    command += map(str, (seconds, users, rate_rps or ""))
    return json.loads(subprocess.check_output(command, input=body.content))


def measure(folder: Path, log: Log) -> Result:
    before, available = machine(), os.sched_getaffinity(0)
    first, second = sorted(available)[:2] if len(available) > 1 else (None, None)
    beside = _beside_a_container(log)
    runs = []
    with ExitStack() as stack:
        servers = {
            "null": stack.enter_context(null_server(core=second)),
            "known": stack.enter_context(null_server(MEDIAN_MS, SIGMA, core=second)),
        }
        if first is not None:
            # What is started from here on stays on that core.
            os.sched_setaffinity(0, {first})
            stack.callback(os.sched_setaffinity, 0, available)
        target = container(servers["null"].url)
        generator = stack.enter_context(LoadGenerator(target, [BODY], loop="closed"))
        for number, way in in_turn(RUNS, ROUNDS):
            run = _run(way, servers[way[1]], generator)
            runs.append(run | {"round": number})
            log(f"round {number + 1} of {ROUNDS}: {', '.join(way)}: {run['rps']:,.0f} requests/s")
    log("the knee of simulated queues")
    return {
        "machine": before,
        "body_bytes": len(BODY.content),
        "seconds": PACE.most_seconds,
        "users": USERS,
        "locust_users": LOCUST_USERS,
        "rates": RATES,
        "median_ms": MEDIAN_MS,
        "sigma": SIGMA,
        "version": metadata.version("locust"),
        "runs": runs,
        "container": {"measured": f"rounds of {PACE.most_seconds:g} s", "rps": beside},
        "queues": [_queue(cores, most_ms, seed) for cores, most_ms in QUEUES for seed in SEEDS],
    }


def _beside_a_container(log: Log) -> dict[str, list[float]]:
    """Requests per second by generator; each has the container's cores, and no core of its own."""
    local = next(file for file in load(ROOT, ROOT / "environments") if file.name == "local")
    assert isinstance(local, ValidFile)  # `make check` reads it
    served = prepared(local)

    def rate(run: dict[str, Any]) -> float:
        if run["failed"]:
            raise RuntimeError(f"{run['failed']} requests failed: {run['errors']}")
        return float(run["rps"])

    with (
        launch(served.archive, served.variables, tensorflow=served.tensorflow) as process,
        LoadGenerator(container(process.url), [RANKER], loop="closed") as generator,
    ):
        url, seconds = process.url, PACE.most_seconds
        ways = {
            OURS: lambda: rate(ours(generator, url, RANKER, "closed", USERS, PACE)),
            LOCUST: lambda: rate(locust(url, RANKER, USERS, None, seconds)),
        }
        return rounds(ways, ROUNDS, log)


def _run(way: Run, server: NullServer, generator: LoadGenerator) -> dict[str, Any]:
    name, server_name, loop = way
    rate = RATES[server_name] if loop == "open" else None
    if name == OURS:
        run = ours(generator, server.url, BODY, loop, rate or USERS, PACE)
    else:
        run = locust(server.url, BODY, LOCUST_USERS if rate else USERS, rate, PACE.most_seconds)
    run["cpu_ms_per_request"] = 1000 * run["cpu_share"] / run["rps"]
    if server_name == "known":
        run["known"] = server.delays()
    return {"generator": name, "server": server_name, "loop": loop, **run}


def _queue(cores: int, most_ms: float, seed: int) -> dict[str, Any]:
    """Compare the knee of a simulated queue with the known answer."""
    service_rate = 1000 / CALL_MS
    objective = Objective(most_ms=most_ms)
    schedule = Schedule(loop="open", first=20.0 * cores, objective=objective)
    seconds = max(LEAST_SECONDS, REQUESTS / service_rate / cores)
    measured = curve(cores, CALL_MS, schedule, seconds=seconds, seed=100 + seed)
    at, full = knee(measured, objective), saturation(measured)
    if at is None or full is None:
        raise RuntimeError(f"no knee of {cores} cores, seed {seed}")
    return {
        "known_rps": mmc_highest_rate(99, most_ms, service_rate=service_rate, servers=cores),
        "knee_rps": at.rps.value,
        "low_rps": at.rps.low,
        "high_rps": at.rps.high,
        "full_rps": full.rps.value,
        "known_full_rps": cores * service_rate,
    }


def fields(result: Result) -> dict[str, Any]:
    queues, rates = result["queues"], result["container"]["rps"]
    names = {OURS: OURS, LOCUST: f"{LOCUST} {result['version']}"}
    closed = (f"closed loop of {result['users']}", "requests/s", "ours / it", "CPU-ms per request")
    opened = f"open loop, {result['rates']['null']:,.0f} requests/s"
    lags = (opened, "answered/s", "sent late, p50, ms", "sent late, p99, ms")
    percentiles = ("", "p50, closed", "p99, closed", "p50, open", "p99, open")

    def by_generator(head: Sequence[str], cells: Callable[[str], list[str]]) -> list[str]:
        return table(head, [(text, *cells(name)) for name, text in names.items()])

    return {
        "rounds": len(_runs(result, OURS, "null", "closed")),
        "share": spread([run["cpu_share"] for run in _runs(result, OURS, "null", "open")]),
        "failed": _failed(result["runs"]),
        "measured": result["container"]["measured"],
        "beside": by_generator(closed[:3], lambda name: _rates(rates[OURS], rates[name])),
        "closed": by_generator(closed, partial(_closed, result)),
        "opened": by_generator(lags, partial(_lags, result)),
        "errors": by_generator(percentiles, partial(_errors, result)),
        "tests": len(queues),
        "queues": _queues(queues),
        "held": sum(test["low_rps"] <= test["known_rps"] <= test["high_rps"] for test in queues),
    }


def _runs(result: Result, generator: str, server: str, loop: str) -> list[dict[str, Any]]:
    """Runs of one kind, in the order of the rounds."""
    kind = {"generator": generator, "server": server, "loop": loop}
    return [run for run in result["runs"] if kind.items() <= run.items()]


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    rates = [run["rps"] for run in _runs(result, OURS, "null", "closed")]
    late = [run["send_lag_p99_ms"] for run in _runs(result, OURS, "null", "open")]
    label = "requests/s of one core, closed loop"
    yield Bound(label=label, values=rates, least=3000.0, form=",.0f")
    yield Bound(label="sent late, p99, ms, open loop", values=late, most=2.0)


def _failed(runs: list[dict[str, Any]]) -> str:
    """Name every failure: a generator that fails has measured something else."""
    sent, failed = (sum(run[key] for run in runs) for key in ("sent", "failed"))
    kinds = sorted({f"{run['generator']}: {kind}" for run in runs for kind in run["errors"]})
    errors = f" ({', '.join(kinds)})" if kinds else ""
    met = "**not met**" if failed else "met"
    return f"{failed:,} of {sent:,} requests failed{errors}; wanted: none, {met}."


def _closed(result: Result, generator: str) -> list[str]:
    mine, runs = (_runs(result, name, "null", "closed") for name in (OURS, generator))
    rates = ([run["rps"] for run in of_one] for of_one in (mine, runs))
    return [*_rates(*rates), spread([run["cpu_ms_per_request"] for run in runs])]


def _rates(ours: list[float], rates: list[float]) -> list[str]:
    return [spread(rates), "" if rates == ours else spread(quotients(ours, rates))]


def _lags(result: Result, generator: str) -> list[str]:
    runs = _runs(result, generator, "null", "open")
    return [
        spread([run[key] for run in runs]) for key in ("rps", "send_lag_p50_ms", "send_lag_p99_ms")
    ]


def _errors(result: Result, generator: str) -> list[str]:
    cells = []
    for loop in ("closed", "open"):
        runs = _runs(result, generator, "known", loop)
        for key in ("p50_ms", "p99_ms"):
            errors = [100 * (run[key] / run["known"][key] - 1) for run in runs]
            cells.append(spread(errors, "+.1f", " %"))
    return cells


def _queues(queues: list[dict[str, Any]]) -> list[str]:
    lines = ["| | median | worst | wanted of the median | |", "|---|---:|---:|---:|---|"]
    for label, key, known in (
        ("highest rate within the objective", "knee_rps", "known_rps"),
        ("saturation", "full_rps", "known_full_rps"),
    ):
        errors = [abs(queue[key] / queue[known] - 1) for queue in queues]
        cells = (f"{median(errors):.1%}", f"{max(errors):.1%}", f"at most {MOST_ERROR:.0%}")
        lines.append(target(label, *cells, median(errors) <= MOST_ERROR))
    return lines


if __name__ == "__main__":
    sys.exit(main("load", measure))
