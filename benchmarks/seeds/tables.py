"""One table for each experiment, from one run's rows."""

from typing import Any

from benchmarks.seeds.rows import short, spread
from benchmarks.seeds.settings import ARTICLE

Table = list[str]
SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}


def baseline(found: dict[str, Any]) -> Table:
    requests = found["requests"]
    ways = list(dict.fromkeys(row["way"] for row in requests))
    lines = [
        "| | latency, 1 row, ms | CPU, 1 row, ms | latency, 111 rows, ms | CPU, 111 rows, ms |",
        "|---|---:|---:|---:|---:|",
    ]
    for way in sorted(ways):
        cells = [
            spread(requests, what, way=way, rows=rows)
            for rows in (1, 111)
            for what in ("latency_ms", "cpu_ms")
        ]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    lines += ["", "| requests/s, 8 callers, 1 row | 1 worker | 4 workers |", "|---|---:|---:|"]
    for way in ("Flask, model.call", "ours, JSON"):
        cells = [
            spread(found["throughput"], "requests_per_second", way=way, workers=workers)
            for workers in (1, 4)
        ]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return lines


def memory(found: dict[str, Any]) -> Table:
    lines = [
        "| memory of all processes, MB | weights, MB | 1 worker | 4 workers |",
        "|---|---:|---:|---:|",
    ]
    for row in found["growing"]:
        cells = [short(row["memory_mb"][workers]) for workers in ("1", "4")]
        lines.append(f"| {row['way']} | {short(row['weights_mb'])} | {' | '.join(cells)} |")
    wall, twelve = found["flask_wall"], found["ours_at_twelve"]
    fits = [row["workers"] for row in wall if row["memory_mb"] <= found["wall_mb"]]
    return [
        *lines,
        "",
        f"With the largest model and {found['wall_mb']:,} MB, {max(fits, default=0)} Flask workers fit "
        f"({wall[-1]['workers']} take {short(wall[-1]['memory_mb'])} MB). "
        f"{twelve['workers']} workers before one model server take {short(twelve['memory_mb'])} MB.",
    ]


def transport(found: list[dict[str, Any]]) -> Table:
    lines = [
        "| latency, ms | " + " | ".join(SIZES.values()) + " |",
        "|---|" + "---:|" * len(SIZES),
    ]
    for transport in ("rest", "grpc"):
        for form in ("json", "npy", "protobuf"):
            cells = [
                spread(found, "latency_ms", transport=transport, form=form, rows=rows)
                for rows in SIZES
            ]
            inside = {"rest": "REST", "grpc": "gRPC"}[transport]
            lines.append(f"| {form} body, {inside} inside | {' | '.join(cells)} |")
    return lines


def settings(found: list[dict[str, Any]]) -> Table:
    lines = [
        "| workers, TFS, OMP, inter, intra | article, per second | scaled to here | requests/s here |",
        "|---|---:|---|---:|",
    ]
    for article, rate in ARTICLE.items():
        here = next(row["here"] for row in found if row["article"] == list(article))
        cell = spread(found, "requests_per_second", article=list(article))
        written = [",".join(map(str, one)) for one in (article, here)]
        lines.append(f"| {written[0]} | {rate:g} | {written[1]} | {cell} |")
    return lines


def swapping(found: dict[str, Any]) -> Table:
    loading, back, together = found["loading"], found["back"], found["together"]
    lines = ["| the small model's latency | p50, ms | p99, ms |", "|---|---:|---:|"]
    for phase in dict.fromkeys(row["phase"] for row in loading):
        cells = [spread(loading, what, phase=phase) for what in ("p50_ms", "p99_ms")]
        lines.append(f"| {phase} | {' | '.join(cells)} |")
    for way in ("one process", "a process each"):
        for busy in (False, True):
            label = f"{way}, the other model {'busy' if busy else 'idle'}"
            cells = [spread(together, what, way=way, busy=busy) for what in ("p50_ms", "p99_ms")]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"Back to the old version: {spread(back, 'kept_ms')} ms where it is still loaded, "
        f"{spread(back, 'loaded_again_ms')} ms where it must be loaded again. The large one took "
        f"{spread(loading, 'seconds', phase='while another is loaded')} s to load.",
    ]


def splitting(found: list[dict[str, Any]]) -> Table:
    lines = ["| 500 rows, ms | whole | 10 x 50 | chosen by the client |", "|---|---:|---:|---:|"]
    for where in dict.fromkeys(row["where"] for row in found):
        cells = [
            spread(found, "latency_ms", where=where, way=way)
            for way in ("whole", "10 x 50", "chosen")
        ]
        lines.append(f"| {where} | {' | '.join(cells)} |")
    return lines
