"""The handler's part of docs/performance.md, from what `make bench-serving` measured last."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ratio import ratio

RESULT = Path(__file__).parent / "result.json"
SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}
Row = dict[str, Any]
Part = Callable[[Row], float]


def gateway(row: Row) -> float:
    return float(row["gateway_ms"])


def whole(row: Row) -> float:
    return float(row["gateway_ms"] + row["model_server_ms"])


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = result["transports"]
    return "\n".join(
        [
            "## The handler",
            "",
            "Generated from `benchmarks/serving/result.json`; measured by `make bench-serving`.",
            "",
            *_how(result),
            "",
            *_times(rows),
            "",
            *_targets(rows, result),
            "",
            *_choosing(result["choosing"]),
            "",
        ]
    )


def _how(result: dict[str, Any]) -> list[str]:
    machine, sizes = result["machine"], result["body_bytes"]
    listed = "; ".join(
        f"{form} {', '.join(f'{size:,}' for size in of)}" for form, of in sizes.items()
    )
    repeats = len({row["repeat"] for row in result["transports"]})
    return [
        "CPU time of one request against the endpoint on this machine, by part: the gateway is the",
        "front, Gunicorn and its worker; the model server is our double, which is Python and not",
        "TensorFlow Serving: ratios of the whole stack hold for this double, and what gRPC and REST",
        "cost there for a small body says nothing of the container's. Rows of 256 float32, rounded",
        f"to 4 decimals, seed 0. Body bytes: {listed}.",
        f"Median of {repeats} repeats in turn, of {', '.join(map(str, result['requests']))} requests",
        f"by size, one after the other{_sliced(result)}; ratios are of the same repeat, with an",
        "interval of 95 %.",
        "",
        "Compared: handlers over REST (input_handler and output_handler, the container posts in",
        "between); gRPC from JSON (the json module, an array, the container's channel); an empty",
        "handler, which reads the body and answers `{}`; ours with three bodies, and with two of",
        "them through grpcio instead of its built-in gRPC client (docs/decisions/0035).",
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
        f"load average {machine['load_before']} before the run; {machine['date']}.",
    ]


def _sliced(result: dict[str, Any]) -> str:
    return f" in {result['slices']} slices in turn with the others'" if "slices" in result else ""


def _times(rows: list[Row]) -> list[str]:
    ways = list(dict.fromkeys(row["way"] for row in rows))
    ways.sort(key=lambda way: way.startswith("ours"))
    lines = [
        "| CPU-ms, gateway + model server | 1 row | 111 rows | 2,230 rows |",
        "|---|---:|---:|---:|",
    ]
    for way in ways:
        cells = []
        for size in SIZES:
            of = _of(rows, way, size)
            servers = median(row["model_server_ms"] for row in of)
            cells.append(f"{median(map(gateway, of)):.2f} + {servers:.2f}")
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return lines


def _targets(rows: list[Row], result: dict[str, Any]) -> list[str]:
    rest, grpc, empty = "handlers over REST", "gRPC from JSON", "empty handler"
    lines = ["| | measured | 95 % | wanted | |", "|---|---:|---:|---:|---|"]
    for way, wanted in (("ours, protobuf", 8), ("ours, npy", 4)):
        label = f"{way}: less than {grpc}, 2,230 rows, gateway"
        lines.append(_ratio(label, rows, grpc, way, 2_230, gateway, at_least=wanted))
    for way, wanted in (("ours, protobuf", 5), ("ours, npy", 3)):
        label = f"{way}: less than {rest}, 2,230 rows, whole stack of the double"
        lines.append(_ratio(label, rows, rest, way, 2_230, whole, at_least=wanted))
    for way in ("ours, JSON", "ours, npy", "ours, protobuf"):
        label = f"{way}: of the {empty}, 1 row, gateway"
        lines.append(_ratio(label, rows, way, empty, 1, gateway, at_most=1.5))
    # Below this the built-in gRPC client goes: docs/decisions/0035.
    for form in ("npy", "protobuf"):
        through_grpcio, built_in = f"ours through grpcio, {form}", f"ours, {form}"
        label = f"{through_grpcio}: of {built_in}, 1 row, whole stack of the double"
        lines.append(_ratio(label, rows, through_grpcio, built_in, 1, whole, at_least=1.1))
    for size in (111, 2_230):
        for way in ("ours, JSON", "ours, npy", "ours, protobuf"):
            label = f"{way}: of {rest}, {SIZES[size]}, gateway"
            lines.append(_ratio(label, rows, way, rest, size, gateway, upper=1.05))
    return [*lines, *_waiting(result["waiting"]), *_chosen(result["choosing"]), *_workers(result)]


def _waiting(rows: list[Row]) -> list[str]:
    shares = [row["through_per_second"] / row["ceiling_per_second"] for row in rows]
    ceilings = [row["ceiling_per_second"] for row in rows]
    return [
        _row("50 ms of model time, 1 worker, 16 callers: share of the model server's own rate",
             f"{median(shares):.0%}", f"{min(shares):.0%} to {max(shares):.0%}", "at least 85 %",
             median(shares) >= 0.85),
        _row("that rate, requests/s", f"{median(ceilings):.0f}",
             f"{min(ceilings):.0f} to {max(ceilings):.0f}", "at least 300", median(ceilings) >= 300),
    ]  # fmt: skip


def _chosen(rows: list[Row]) -> list[str]:
    few = {row["way"]: row for row in rows if row["callers"] == 4}
    of_random = few["measured"]["p99_ms"] / few["random"]["p99_ms"]
    share = few["measured"]["slow_share"]
    label = "4 model servers, one slower by 50 ms, 4 callers, 1 worker"
    return [
        _row(f"{label}: p99 of random choice's", f"{of_random:.2f}x", "", "at most 0.5x", of_random <= 0.5),
        _row(f"{label}: requests on the slow one", f"{share:.2%}", "", "less than 1 %", share < 0.01),
    ]  # fmt: skip


def _workers(result: dict[str, Any]) -> list[str]:
    memory, ready = result["workers"]["pss_mb"], result["workers"]["ready_seconds"]
    return [
        _row(
            "4 workers and Gunicorn: PSS", f"{memory:.0f} MB", "", "at most 140 MB", memory <= 140
        ),
        _row("4 workers: ready after", f"{ready:.1f} s", "", "at most 6 s", ready <= 6),
    ]


def _choosing(rows: list[Row]) -> list[str]:
    lines = [
        "Four model servers, one of them slower by 50 ms; latency in milliseconds, and the share of",
        "requests that the slow one got where one worker counted them:",
        "",
        "| workers, callers | way to choose | p50 | p99 | requests/s | on the slow one |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        share = f"{row['slow_share']:.2%}" if "slow_share" in row else ""
        lines.append(
            f"| {row['workers']}, {row['callers']} | {row['way']} | {row['p50_ms']:.1f} | "
            f"{row['p99_ms']:.1f} | {row['requests_per_second']:.0f} | {share} |"
        )
    return lines


def _of(rows: list[Row], way: str, size: int) -> list[Row]:
    return [row for row in rows if row["way"] == way and row["rows"] == size]


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
    return _row(label, f"{found.median:.2f}x", f"{found.low:.2f} to {found.high:.2f}", wanted, met)


def _row(label: str, found: str, spread: str, wanted: str, met: bool) -> str:
    return f"| {label} | {found} | {spread} | {wanted} | {'met' if met else '**not met**'} |"
