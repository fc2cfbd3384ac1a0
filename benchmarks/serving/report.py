"""The handler's part of docs/performance.md, from what `make bench-serving` measured last."""

import itertools
import math
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, ratio, row, table, target

SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}
REST, GRPC, EMPTY = "handlers over REST", "gRPC from JSON", "empty handler"
OURS = ("ours, JSON", "ours, npy", "ours, protobuf")
Row = dict[str, Any]
Part = Callable[[Row], float]


def gateway(cost: Row) -> float:
    return float(cost["gateway_ms"])


def whole(cost: Row) -> float:
    return float(cost["gateway_ms"] + cost["model_server_ms"])


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
        "bounds": [*head, *_ratios(rows), *(bound.row() for bound in _bounds(result))],
        "choosing": _choosing(result["choosing"]),
    }


def _times(rows: list[Row]) -> list[str]:
    ways = list(dict.fromkeys(cost["way"] for cost in rows))
    ways.sort(key=lambda way: way.startswith("ours"))
    cells: dict[str, list[str]] = {way: [] for way in ways}
    for way, size in itertools.product(ways, SIZES):
        costs = _costs(rows, way, size)
        servers = median(cost["model_server_ms"] for cost in costs)
        cells[way].append(f"{median(map(gateway, costs)):.2f} + {servers:.2f}")
    head = ("CPU-ms, web server + model server", *SIZES.values())
    return table(head, [(way, *cells[way]) for way in ways])


def _ratios(rows: list[Row]) -> Iterator[str]:
    """Yield rows of ratios. Source of what is wanted: the requirements of this project."""
    # (label, one side, the other, rows of a request, what is compared, at least, at most, upper end at most)
    cases: list[tuple[str, str, str, int, Part, float, float, float]] = []
    no = math.inf
    for way, least in (("ours, protobuf", 8.0), ("ours, npy", 4.0)):
        label = f"{way}: less than {GRPC}, 2,230 rows, web server"
        cases.append((label, GRPC, way, 2_230, gateway, least, no, no))
    for way, least in (("ours, protobuf", 5.0), ("ours, npy", 3.0)):
        label = f"{way}: less than {REST}, 2,230 rows, whole stack of the local container"
        cases.append((label, REST, way, 2_230, whole, least, no, no))
    for way in OURS:
        cases.append(
            (f"{way}: of the {EMPTY}, 1 row, web server", way, EMPTY, 1, gateway, 0, 1.5, no)
        )
    # Below this the built-in gRPC client goes: docs/decisions/0035.
    for form in ("npy", "protobuf"):
        through, built_in = f"ours through grpcio, {form}", f"ours, {form}"
        label = f"{through}: of {built_in}, 1 row, whole stack of the local container"
        cases.append((label, through, built_in, 1, whole, 1.1, no, no))
    for size in (111, 2_230):
        for way in OURS:
            label = f"{way}: of {REST}, {SIZES[size]}, web server"
            cases.append((label, way, REST, size, gateway, 0, no, 1.05))
    for label, above, below, size, part, least, most, upper in cases:
        sides = [[part(cost) for cost in _costs(rows, way, size)] for way in (above, below)]
        times = ratio(*sides)
        wanted = f"at least {least:g}x" if least else f"at most {most:g}x"
        if upper < no:
            wanted = f"upper end at most {upper:g}x"
        met = least <= times.median <= most and times.high <= upper
        interval = f"{times.low:.2f} to {times.high:.2f}"
        yield target(label, f"{times.median:.2f}x", interval, wanted, met)


def _costs(rows: list[Row], way: str, size: int) -> list[Row]:
    return [cost for cost in rows if cost["way"] == way and cost["rows"] == size]


def _bounds(result: Result) -> list[Bound]:
    """The bounds under load. Source: the requirements of this project."""
    waiting, workers = result["waiting"], result["workers"]
    few = {run["way"]: run for run in result["choosing"] if run["callers"] == 4}
    times = few["measured"]["p99_ms"] / few["random"]["p99_ms"]
    shares = [run["through_per_second"] / run["ceiling_per_second"] for run in waiting]
    rates = [run["ceiling_per_second"] for run in waiting]
    one_worker = "50 ms of model time, 1 worker, 16 callers: share of the model server's own rate"
    slow = "4 model servers, one slower by 50 ms, 4 callers, 1 worker"
    memory, ready = [workers["pss_mb"]], [workers["ready_seconds"]]
    return [
        Bound(label=one_worker, values=shares, least=0.85, form=".0%"),
        Bound(label="that rate, requests/s", values=rates, least=300, form=".0f"),
        Bound(label=f"{slow}: p99 of random choice's", values=[times], most=0.5, unit="x"),
        Bound(
            label=f"{slow}: requests on the slow one",
            values=[few["measured"]["slow_share"]],
            most=0.01,
            form=".2%",
        ),
        Bound(label="4 workers and Gunicorn: PSS", values=memory, most=140, form=".0f", unit=" MB"),
        Bound(label="4 workers: ready after", values=ready, most=6, form=".1f", unit=" s"),
    ]


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
