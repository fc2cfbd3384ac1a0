"""The tables of each experiment, from its rows."""

from typing import Any

from benchmarks.seeds.article_settings import ARTICLE
from benchmarks.seeds.claim import OTHER_WAY, SHOWS
from benchmarks.seeds.claims import whole_against_split
from benchmarks.seeds.rows import middle, short, spread

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
        lines.append(_row(way, *cells))
    lines += ["", "| requests/s, 8 callers, 1 row | 1 worker | 4 workers |", "|---|---:|---:|"]
    for way in ("Flask, model.call", "ours, JSON"):
        cells = [
            spread(found["throughput"], "requests_per_second", way=way, workers=workers)
            for workers in (1, 4)
        ]
        lines.append(_row(way, *cells))
    difference = found["largest_difference"]
    return [*lines, "", f"The answers to the same 111 rows differ by at most {difference:.0e}."]


def memory(found: dict[str, Any]) -> Table:
    lines = [
        "| memory of all processes, MB | weights, MB | 1 worker | 4 workers |",
        "|---|---:|---:|---:|",
    ]
    for row in found["growing"]:
        cells = [short(row["memory_mb"][workers]) for workers in ("1", "4")]
        lines.append(_row(row["way"], short(row["weights_mb"]), *cells))
    wall, twelve = found["flask_wall"], found["ours_at_twelve"]
    fits = [row["workers"] for row in wall if row["memory_mb"] <= found["wall_mb"]]
    beyond = [row for row in wall if row["memory_mb"] > found["wall_mb"]]
    more = f" ({beyond[0]['workers']} take {short(beyond[0]['memory_mb'])} MB)" if beyond else ""
    return [
        *lines,
        "",
        f"With the largest model {max(fits, default=0)} of Flask's workers fit into {found['wall_mb']:,} "
        f"MB{more}. "
        f"{twelve['workers']} workers before one model server take {short(twelve['memory_mb'])} MB.",
    ]


def transport(found: list[dict[str, Any]]) -> Table:
    lines = [
        "| latency, ms | " + " | ".join(SIZES.values()) + " |",
        "|---|" + "---:|" * len(SIZES),
    ]
    for transport, inside in (("rest", "REST"), ("grpc", "gRPC")):
        for form in ("json", "npy", "protobuf"):
            cells = [
                spread(found, "latency_ms", transport=transport, form=form, rows=rows)
                for rows in SIZES
            ]
            lines.append(_row(f"{form} body, {inside} inside", *cells))
    return lines


def settings(found: dict[str, Any]) -> Table:
    simulated = found["simulated"]
    lines = [
        "| workers, TFS, OMP, inter, intra | article, per second | simulated, "
        f"{simulated['cores']} cores | scaled to here | requests/s here |",
        "|---|---:|---:|---|---:|",
    ]
    for article, rate in ARTICLE.items():
        here = next(row["here"] for row in found["here"] if row["article"] == list(article))
        cells = [
            spread(rows, "requests_per_second", article=list(article))
            for rows in (simulated["rows"], found["here"])
        ]
        written = [",".join(map(str, one)) for one in (article, here)]
        lines.append(_row(written[0], f"{rate:g}", cells[0], written[1], cells[1]))
    return [
        *lines,
        "",
        f"Simulated: {simulated['users']} users who each wait for their answer. Three of the article's rows "
        f"give the work of one request: {short(simulated['handler_ms'])} ms in a worker and "
        f"{short(simulated['call_ms'])} ms in the model server, of which threads do "
        f"{simulated['parallel_share']:.0%} side by side. 1,1,36,36,36 and 36,8,1,1,1 are predictions.",
    ]


def swapping(found: dict[str, Any]) -> Table:
    loading, back, together = found["loading"], found["back"], found["together"]
    lines = ["| the small model's latency | p50, ms | p99, ms |", "|---|---:|---:|"]
    for phase in dict.fromkeys(row["phase"] for row in loading):
        cells = [spread(loading, what, phase=phase) for what in ("p50_ms", "p99_ms")]
        lines.append(_row(phase, *cells))
    for way in ("one process", "a process each"):
        for busy in (False, True):
            label = f"{way}, the other model {'busy' if busy else 'idle'}"
            cells = [spread(together, what, way=way, busy=busy) for what in ("p50_ms", "p99_ms")]
            lines.append(_row(label, *cells))
    return [
        *lines,
        "",
        f'From "roll back" until the old version answers everything: {spread(back, "kept_ms")} ms where it '
        f"is still loaded, {spread(back, 'loaded_again_ms')} ms where it must be loaded again first. The "
        f"large one took {spread(loading, 'seconds', phase='while another is loaded')} s to load.",
    ]


def splitting(found: list[dict[str, Any]]) -> Table:
    lines = [
        "| 500 rows, ms | whole | 10 x 50 | splitting | chosen by the client | its parts |",
        "|---|---:|---:|---|---:|---:|",
    ]
    words = {SHOWS: "wins", OTHER_WAY: "loses"}
    for where in dict.fromkeys(row["where"] for row in found):
        whole, split, chosen = (
            spread(found, "latency_ms", where=where, way=way)
            for way in ("whole", "10 x 50", "chosen")
        )
        won = words.get(whole_against_split(found, where).verdict, "makes no difference")
        parts = short(middle(found, "parts", where=where, way="chosen"))
        lines.append(_row(where, whole, split, won, chosen, parts))
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
