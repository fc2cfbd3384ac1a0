"""The handler's part of docs/performance.md, from what `make bench-serving` measured last."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ratio import ratio
from benchmarks.report import ran_on, read, row, target
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}
Row = dict[str, Any]
Part = Callable[[Row], float]


def gateway(one: Row) -> float:
    return float(one["gateway_ms"])


def whole(one: Row) -> float:
    return float(one["gateway_ms"] + one["model_server_ms"])


def section() -> str:
    result = read(RESULT)
    rows = result["transports"]
    parts = (_how(result), _times(rows), _targets(rows, result), _choosing(result["choosing"]))
    return page_section("The handler", "serving", *parts)


def _how(result: dict[str, Any]) -> list[str]:
    sizes = [
        f"{form} {', '.join(f'{size:,}' for size in of)}"
        for form, of in result["body_bytes"].items()
    ]
    repeats = len({one["repeat"] for one in result["transports"]})
    return [
        "CPU time of one request against the endpoint on this computer, by part: the web server is the",
        "nginx stand-in, Gunicorn and its worker; the model server is the local container's, which is Python",
        "and not TensorFlow Serving: ratios of the whole stack hold for it, and what gRPC and REST",
        "cost there for a small body says nothing of the container's. Rows of 256 float32, rounded",
        f"to 4 decimals, seed 0. Body bytes: {'; '.join(sizes)}.",
        f"Median of {repeats} repeats in turn, of {', '.join(map(str, result['requests']))} requests",
        f"by size, one after the other in {result['slices']} slices in turn with the others'; ratios are "
        "of the same repeat, with an",
        "interval of 95 %.",
        "",
        "Compared: handlers over REST (input_handler and output_handler, the container posts in",
        "between); gRPC from JSON (the json module, an array, the container's channel); an empty",
        "handler, which reads the body and answers `{}`; ours with three bodies, and with two of",
        "them through grpcio instead of its built-in gRPC client (docs/decisions/0035).",
        "",
        ran_on(result["machine"]),
    ]


def _times(rows: list[Row]) -> list[str]:
    ways = list(dict.fromkeys(one["way"] for one in rows))
    ways.sort(key=lambda way: way.startswith("ours"))
    lines = [
        "| CPU-ms, web server + model server | 1 row | 111 rows | 2,230 rows |",
        "|---|---:|---:|---:|",
    ]
    for way in ways:
        cells = []
        for size in SIZES:
            of = _of(rows, way, size)
            servers = median(one["model_server_ms"] for one in of)
            cells.append(f"{median(map(gateway, of)):.2f} + {servers:.2f}")
        lines.append(row(way, *cells))
    return lines


def _targets(rows: list[Row], result: dict[str, Any]) -> list[str]:
    rest, grpc, empty = "handlers over REST", "gRPC from JSON", "empty handler"
    lines = ["| | measured | 95 % | wanted | |", "|---|---:|---:|---:|---|"]
    for way, wanted in (("ours, protobuf", 8), ("ours, npy", 4)):
        label = f"{way}: less than {grpc}, 2,230 rows, web server"
        lines.append(_ratio(label, rows, grpc, way, 2_230, gateway, at_least=wanted))
    for way, wanted in (("ours, protobuf", 5), ("ours, npy", 3)):
        label = f"{way}: less than {rest}, 2,230 rows, whole stack of the local container"
        lines.append(_ratio(label, rows, rest, way, 2_230, whole, at_least=wanted))
    for way in ("ours, JSON", "ours, npy", "ours, protobuf"):
        label = f"{way}: of the {empty}, 1 row, web server"
        lines.append(_ratio(label, rows, way, empty, 1, gateway, at_most=1.5))
    # Below this the built-in gRPC client goes: docs/decisions/0035.
    for form in ("npy", "protobuf"):
        through_grpcio, built_in = f"ours through grpcio, {form}", f"ours, {form}"
        label = f"{through_grpcio}: of {built_in}, 1 row, whole stack of the local container"
        lines.append(_ratio(label, rows, through_grpcio, built_in, 1, whole, at_least=1.1))
    for size in (111, 2_230):
        for way in ("ours, JSON", "ours, npy", "ours, protobuf"):
            label = f"{way}: of {rest}, {SIZES[size]}, web server"
            lines.append(_ratio(label, rows, way, rest, size, gateway, upper=1.05))
    return [*lines, *_waiting(result["waiting"]), *_chosen(result["choosing"]), *_workers(result)]


def _waiting(rows: list[Row]) -> list[str]:
    shares = [one["through_per_second"] / one["ceiling_per_second"] for one in rows]
    ceilings = [one["ceiling_per_second"] for one in rows]
    return [
        target("50 ms of model time, 1 worker, 16 callers: share of the model server's own rate",
             f"{median(shares):.0%}", f"{min(shares):.0%} to {max(shares):.0%}", "at least 85 %",
             median(shares) >= 0.85),
        target("that rate, requests/s", f"{median(ceilings):.0f}",
             f"{min(ceilings):.0f} to {max(ceilings):.0f}", "at least 300", median(ceilings) >= 300),
    ]  # fmt: skip


def _chosen(rows: list[Row]) -> list[str]:
    few = {one["way"]: one for one in rows if one["callers"] == 4}
    of_random = few["measured"]["p99_ms"] / few["random"]["p99_ms"]
    share = few["measured"]["slow_share"]
    label = "4 model servers, one slower by 50 ms, 4 callers, 1 worker"
    return [
        target(f"{label}: p99 of random choice's", f"{of_random:.2f}x", "", "at most 0.5x", of_random <= 0.5),
        target(f"{label}: requests on the slow one", f"{share:.2%}", "", "less than 1 %", share < 0.01),
    ]  # fmt: skip


def _workers(result: dict[str, Any]) -> list[str]:
    memory, ready = result["workers"]["pss_mb"], result["workers"]["ready_seconds"]
    return [
        target(
            "4 workers and Gunicorn: PSS", f"{memory:.0f} MB", "", "at most 140 MB", memory <= 140
        ),
        target("4 workers: ready after", f"{ready:.1f} s", "", "at most 6 s", ready <= 6),
    ]


def _choosing(rows: list[Row]) -> list[str]:
    lines = [
        "Four model servers, one of them slower by 50 ms; latency in milliseconds, and the share of",
        "requests that the slow one got where one worker counted them:",
        "",
        "| workers, callers | way to choose | p50 | p99 | requests/s | on the slow one |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for one in rows:
        share = f"{one['slow_share']:.2%}" if "slow_share" in one else ""
        latencies = (f"{one['p50_ms']:.1f}", f"{one['p99_ms']:.1f}")
        rate = f"{one['requests_per_second']:.0f}"
        lines.append(
            row(f"{one['workers']}, {one['callers']}", one["way"], *latencies, rate, share)
        )
    return lines


def _of(rows: list[Row], way: str, size: int) -> list[Row]:
    return [one for one in rows if one["way"] == way and one["rows"] == size]


def _ratio(
    label: str,
    rows: list[Row],
    above: str,
    below: str,
    size: int,
    part: Part,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    upper: float | None = None,
) -> str:
    """`upper` is a bound for the interval's upper end, the others for the median."""
    found = ratio(
        [part(one) for one in _of(rows, above, size)], [part(one) for one in _of(rows, below, size)]
    )
    if at_least is not None:
        wanted, met = f"at least {at_least:g}x", found.median >= at_least
    elif at_most is not None:
        wanted, met = f"at most {at_most:g}x", found.median <= at_most
    else:
        assert upper is not None
        wanted, met = f"upper end at most {upper:g}x", found.high <= upper
    return target(
        label, f"{found.median:.2f}x", f"{found.low:.2f} to {found.high:.2f}", wanted, met
    )
