"""Cost of the handler: `make bench-serving`. Writes result.json and docs/performance.md."""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller, load
from benchmarks.cost import cpu, pss_mb
from benchmarks.frame import Log, Result, in_turn, machine, main
from benchmarks.tables import Bound, ratio, row, table, target
from infra.policy.container import variable_of
from servable_local.container.launch import EndpointProcess, launch

SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}
REST, GRPC, EMPTY = "handlers over REST", "gRPC from JSON", "empty handler"
OURS = ("ours, JSON", "ours, npy", "ours, protobuf")
Row = dict[str, Any]
Part = Callable[[Row], float]
REPEATS = 5
REQUESTS = {1: 1000, 111: 250, 2_230: 30}
# Each in turn with the others, so that all meet the computer's slow moments: it has some that last
# longer than all of one contender's requests do.
SLICES = 10
CONTENDERS = Path(__file__).parent / "contenders"
THROUGH_GRPCIO = "ours.py, through grpcio"
# contender -> (what is started, what it is sent)
WAYS = {
    "handlers over REST": ("over_rest.py", workload.JSON),
    "gRPC from JSON": ("grpc_from_json.py", workload.JSON),
    "empty handler": ("empty.py", workload.JSON),
    "ours, JSON": ("ours.py", workload.JSON),
    "ours, npy": ("ours.py", workload.NPY),
    "ours, protobuf": ("ours.py", workload.PROTOBUF),
    "ours through grpcio, npy": (THROUGH_GRPCIO, workload.NPY),
    "ours through grpcio, protobuf": (THROUGH_GRPCIO, workload.PROTOBUF),
}


def archives(folder: Path, model: Path) -> dict[str, Path]:
    """One for each inference.py."""
    return {
        name: workload.pack(
            folder / f"{name}.tar.gz",
            {"rows": model},
            {"inference.py": (CONTENDERS / name).read_bytes()},
            handler=name in ("ours.py", "grpc_from_json.py"),
        )
        for name in ("over_rest.py", "grpc_from_json.py", "empty.py", "ours.py")
    }


def transports(packed: dict[str, Path], log: Log) -> list[dict[str, Any]]:
    """One row for each repeat, size and contender."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(launch(archive, {})) for name, archive in packed.items()
        }
        through_grpcio = launch(packed["ours.py"], {"THROUGH_GRPCIO": "1"})
        running[THROUGH_GRPCIO] = stack.enter_context(through_grpcio)
        for process in running.values():
            _send(process, workload.JSON, 1, 20)
        for repeat in range(REPEATS):
            for count in workload.ROWS:
                spent = {way: np.zeros(2) for way in WAYS}
                for _, way in in_turn(WAYS, SLICES):
                    name, form = WAYS[way]
                    process = running[name]
                    # After a request that finds the caches as the one before left them.
                    _send(process, form, count, 1)
                    before = cpu(process)
                    _send(process, form, count, REQUESTS[count] // SLICES)
                    spent[way] += cpu(process) - before
                for way, cost in spent.items():
                    gateway, model_server = (cost / REQUESTS[count]).tolist()
                    row = {"repeat": repeat, "way": way, "rows": count, "gateway_ms": gateway}
                    rows.append({**row, "model_server_ms": model_server})
            log(f"repeat {repeat + 1} of {REPEATS}")
    return rows


def _send(process: EndpointProcess, form: str, count: int, requests: int) -> None:
    body, caller = workload.body(form, count), EndpointCaller(process.url)
    for _ in range(requests):
        caller.ask(body, form)


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    log("making a model")
    packed = archives(folder, workload.model(folder / "model"))
    ours = packed["ours.py"]
    return {
        "machine": before,
        "body_bytes": {
            form: [len(workload.body(form, count)) for count in workload.ROWS]
            for form in (workload.JSON, workload.NPY, workload.PROTOBUF)
        },
        "requests": list(REQUESTS.values()),
        "slices": SLICES,
        "transports": transports(packed, log),
        "waiting": waiting(ours, log),
        "choosing": choosing(ours, log),
    }


SECONDS = 6.0
MODEL_MS = 50.0
BODY, FORM = workload.body(workload.PROTOBUF, 1), workload.PROTOBUF


def waiting(archive: Path, log: Log) -> list[dict[str, float]]:
    """Requests per second through one worker whose model takes 50 ms."""
    rows = []
    with launch(archive, {}) as process:
        process.faults.slow(MODEL_MS)
        for repeat in range(3):
            run = load(process.url, BODY, callers=16, seconds=SECONDS, content_type=FORM)
            rows.append({"through_per_second": run.requests_per_second, "failed": run.failed})
            log(f"50 ms, 16 callers, {repeat + 1} of 3: {rows[-1]}")
    return rows


def choosing(archive: Path, log: Log) -> list[dict[str, Any]]:
    """Latencies by the way to choose among four model servers, of which one is slower by 50 ms."""
    rows = []
    for workers, callers in ((1, 4), (1, 16), (4, 16)):
        for way in ("measured", "random", "two choices", "least busy"):
            variables = {
                variable_of("tfs_processes"): "4",
                variable_of("gunicorn_workers"): str(workers),
                "WAY_TO_CHOOSE": way,
            }
            with launch(archive, variables) as process:
                process.faults.slow(MODEL_MS, server=3)
                load(process.url, BODY, callers=callers, seconds=1, content_type=FORM)
                before = _counts(process)
                run = load(process.url, BODY, callers=callers, seconds=SECONDS, content_type=FORM)
                counts = _counts(process) - before
                parts = process.parts
                memory_mb = pss_mb([parts.gunicorn, *parts.workers])
            row: dict[str, Any] = {"way": way, "workers": workers, "callers": callers, **vars(run)}
            row["pss_mb"] = memory_mb
            if workers == 1:
                # Each worker has counts of its own.
                row["slow_share"] = counts["3"] / counts.total()
            rows.append(row)
            log(f"{way}, {workers} workers, {callers} callers: p99 {run.p99_ms:.1f} ms")
    return rows


def _counts(process: EndpointProcess) -> Counter[str]:
    """Requests that each model server got from the worker that answers."""
    return Counter(json.loads(EndpointCaller(process.url).ask(b"", FORM, "counts")))


def fields(result: Result) -> dict[str, Any]:
    rows = result["transports"]
    sizes = [
        f"{form} {', '.join(f'{size:,}' for size in of_form)}"
        for form, of_form in result["body_bytes"].items()
    ]
    head = ["| | measured | 95 % | wanted | |", "|---|---:|---:|---:|---|"]
    return {
        "sizes": "; ".join(sizes),
        "repeats": len({cost["repeat"] for cost in rows}),
        "requests": ", ".join(map(str, result["requests"])),
        "times": _times(rows),
        "bounds": [*head, *_ratios(rows), *(bound.row() for bound in bounds(result))],
        "choosing": _choosing(result["choosing"]),
    }


def gateway(cost: Row) -> float:
    return float(cost["gateway_ms"])


def whole(cost: Row) -> float:
    return float(cost["gateway_ms"] + cost["model_server_ms"])


def _times(rows: list[Row]) -> list[str]:
    lines = []
    ways = dict.fromkeys(cost["way"] for cost in rows)
    for way in sorted(ways, key=lambda way: way.startswith("ours")):
        cells = []
        for size in SIZES:
            costs = _costs(rows, way, size)
            servers = median(cost["model_server_ms"] for cost in costs)
            cells.append(f"{median(map(gateway, costs)):.2f} + {servers:.2f}")
        lines.append((way, *cells))
    return table(("CPU-ms, web server + model server", *SIZES.values()), lines)


def _ratios(rows: list[Row]) -> Iterator[str]:
    """Yield rows of ratios. Source of what is wanted: the requirements of this project."""
    stack, no = "whole stack of the local container", math.inf

    def compared(
        above: str, below: str, size: int, part: Part, *, label: str,
        least: float = 0.0, most: float = no, upper: float = no,
    ) -> str:  # fmt: skip
        times = ratio(*([part(cost) for cost in _costs(rows, way, size)] for way in (above, below)))
        wanted = f"at least {least:g}x" if least else f"at most {most:g}x"
        if upper < no:
            wanted = f"upper end at most {upper:g}x"
        met = least <= times.median <= most and times.high <= upper
        interval = f"{times.low:.2f} to {times.high:.2f}"
        return target(label, f"{times.median:.2f}x", interval, wanted, met)

    for way, least in (("ours, protobuf", 8.0), ("ours, npy", 4.0)):
        label = f"{way}: less than {GRPC}, 2,230 rows, web server"
        yield compared(GRPC, way, 2_230, gateway, label=label, least=least)
    for way, least in (("ours, protobuf", 5.0), ("ours, npy", 3.0)):
        label = f"{way}: less than {REST}, 2,230 rows, {stack}"
        yield compared(REST, way, 2_230, whole, label=label, least=least)
    for way in OURS:
        label = f"{way}: of the {EMPTY}, 1 row, web server"
        yield compared(way, EMPTY, 1, gateway, label=label, most=1.5)
    # Below this the built-in gRPC client goes: docs/decisions/0035.
    for form in ("npy", "protobuf"):
        through, built_in = f"ours through grpcio, {form}", f"ours, {form}"
        label = f"{through}: of {built_in}, 1 row, {stack}"
        yield compared(through, built_in, 1, whole, label=label, least=1.1)
    for size in (111, 2_230):
        for way in OURS:
            label = f"{way}: of {REST}, {SIZES[size]}, web server"
            yield compared(way, REST, size, gateway, label=label, upper=1.05)


def _costs(rows: list[Row], way: str, size: int) -> list[Row]:
    return [cost for cost in rows if cost["way"] == way and cost["rows"] == size]


def bounds(result: Result) -> Iterator[Bound]:
    """The bounds under load. Source: the requirements of this project."""
    few = {run["way"]: run for run in result["choosing"] if run["callers"] == 4}
    # 16 callers that wait for 50 ms each.
    shares = [run["through_per_second"] / 320 for run in result["waiting"]]
    label = "50 ms of model time, 1 worker, 16 callers: share of 320 requests/s"
    yield Bound(label=label, values=shares, least=0.85, form=".0%")
    slow = "4 model servers, one slower by 50 ms, 4 callers, 1 worker"
    times = few["measured"]["p99_ms"] / few["random"]["p99_ms"]
    yield Bound(label=f"{slow}: p99 of random choice's", values=[times], most=0.5, unit="x")
    label, share = f"{slow}: requests on the slow one", few["measured"]["slow_share"]
    yield Bound(label=label, values=[share], most=0.01, form=".2%")
    memory = [run["pss_mb"] for run in result["choosing"] if run["workers"] == 4]
    label = "4 workers and Gunicorn: PSS"
    yield Bound(label=label, values=memory[:1], most=140, form=".0f", unit=" MB")


def _choosing(rows: list[Row]) -> list[str]:
    lines = [
        "| workers, callers | way to choose | p50 | p99 | requests/s | on the slow one |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for run in rows:
        share = f"{run['slow_share']:.2%}" if "slow_share" in run else ""
        latencies = (f"{run['p50_ms']:.1f}", f"{run['p99_ms']:.1f}")
        rate = f"{run['requests_per_second']:.0f}"
        where = f"{run['workers']}, {run['callers']}"
        lines.append(row(where, run["way"], *latencies, rate, share))
    return lines


if __name__ == "__main__":
    sys.exit(main("serving", measure))
