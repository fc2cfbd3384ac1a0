"""The articles' part of docs/performance.md, from what `make bench-seeds` measured last.

For each experiment a title, a few words, a table and a picture; before them every claim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.report import row
from benchmarks.seeds.claims import CLAIMS, OTHER_WAY, SHOWS, whole_against_split
from benchmarks.seeds.results import ARTICLE, RESULT, Result, read, short, spread, values

__all__ = ["RESULT", "section"]

Table = list[str]
SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}


def section() -> str:
    return "\n".join(lines(read()))


def lines(result: Result) -> list[str]:
    return [*_how(), *_runs(result), *_claims(result), *_experiments(result)]


def _how() -> list[str]:
    return [
        "## The articles, side by side",
        "",
        "Generated from `benchmarks/seeds/result.json`; measured by `make bench-seeds`, both sides of an",
        "experiment in one go. Medians, with the smallest and largest of the repeats. Ratios are of the",
        "same repeat, with an interval of 95 %. The double's model server is TensorFlow's runtime behind",
        "interfaces in Python, so what JSON costs inside it is not what TensorFlow Serving's C++ takes, and",
        "comparisons of REST and gRPC for small bodies say nothing of it.",
        "",
        "What few cores cannot show: what more workers and model servers than these are worth (S1, S2),",
        "parts of a batch computed side by side (S4), and GPUs (S0). For S2 and S4 a simulator stands beside",
        "the measurement, labelled so; GPUs are not here.",
        "",
    ]


def _runs(result: Result) -> list[str]:
    rows = [
        row(
            *(name, one["run"], str(one["seconds"]), one["model_server"]),
            f"{one['machine']['cores']} cores, {one['machine']['processor']}",
            *(str(one["machine"]["load_before"]), one["machine"]["python"]),
        )
        for name, one in result.items()
    ]
    table = [
        "| | run | seconds | model server | machine | load average before | Python |",
        "|---|---|---:|---|---|---:|---|",
        *rows,
        "",
    ]
    mixed, missing = [], [name for name in CLAIMS if name not in result]
    if len({one["run"] for one in result.values()}) > 1:
        mixed = ["Measured in several runs; no number is compared with one of another run.", ""]
    if missing:
        mixed += [f"Not measured here yet: {', '.join(missing)}.", ""]
    return [*table, *mixed]


def _experiments(result: Result) -> list[str]:
    found = []
    for name, parts in PARTS.items():
        for part in parts if name in result else []:
            table = part.table(part.of(result[name]["found"]))
            picture = f"![{part.title}](performance/{part.picture}.png)"
            found += [f"### {part.title}", "", part.words, "", *table, "", picture, ""]
    return found


def _claims(result: Result) -> list[str]:
    found = [
        claim
        for name, claims in CLAIMS.items()
        if name in result
        for claim in claims(result[name]["found"])
    ]
    missing = [claim.missing() for claim in found if claim.verdict != SHOWS]
    return [
        "### What the articles say, and what was found",
        "",
        "A claim shows where the whole interval of its ratio is where it is wanted, and is undecided where",
        "only a part of it is.",
        "",
        "| | article | here | ratio | wanted | |",
        "|---|---|---|---:|---|---|",
        *(claim.row() for claim in found),
        "",
        "What did not show on this machine:",
        "",
        *(missing or ["- nothing: every effect above showed."]),
        "",
    ]


def _baseline(found: dict[str, Any]) -> Table:
    requests = found["requests"]
    ways = list(dict.fromkeys(one["way"] for one in requests))
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
        lines.append(row(way, *cells))
    lines += ["", "| requests/s, 8 callers, 1 row | 1 worker | 4 workers |", "|---|---:|---:|"]
    for way in ("Flask, model.call", "ours, JSON"):
        cells = [
            spread(found["throughput"], "requests_per_second", way=way, workers=workers)
            for workers in (1, 4)
        ]
        lines.append(row(way, *cells))
    difference = found["largest_difference"]
    return [*lines, "", f"The answers to the same 111 rows differ by at most {difference:.0e}."]


def _memory(found: dict[str, Any]) -> Table:
    lines = [
        "| memory of all processes, MB | weights, MB | 1 worker | 4 workers |",
        "|---|---:|---:|---:|",
    ]
    for one in found["growing"]:
        cells = [short(one["memory_mb"][workers]) for workers in ("1", "4")]
        lines.append(row(one["way"], short(one["weights_mb"]), *cells))
    wall, twelve = found["flask_wall"], found["ours_at_twelve"]
    fits = [one["workers"] for one in wall if one["memory_mb"] <= found["wall_mb"]]
    beyond = [one for one in wall if one["memory_mb"] > found["wall_mb"]]
    more = f" ({beyond[0]['workers']} take {short(beyond[0]['memory_mb'])} MB)" if beyond else ""
    return [
        *lines,
        "",
        f"With the largest model {max(fits, default=0)} of Flask's workers fit into {found['wall_mb']:,} "
        f"MB{more}. "
        f"{twelve['workers']} workers before one model server take {short(twelve['memory_mb'])} MB.",
    ]


def _transport(found: list[dict[str, Any]]) -> Table:
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
            lines.append(row(f"{form} body, {inside} inside", *cells))
    return lines


def _settings(found: dict[str, Any]) -> Table:
    simulated = found["simulated"]
    lines = [
        "| workers, TFS, OMP, inter, intra | article, per second | simulated, "
        f"{simulated['cores']} cores | scaled to here | requests/s here |",
        "|---|---:|---:|---|---:|",
    ]
    for article, rate in ARTICLE.items():
        here = next(one["here"] for one in found["here"] if one["article"] == list(article))
        cells = [
            spread(rows, "requests_per_second", article=list(article))
            for rows in (simulated["rows"], found["here"])
        ]
        written = [",".join(map(str, one)) for one in (article, here)]
        lines.append(row(written[0], f"{rate:g}", cells[0], written[1], cells[1]))
    return [
        *lines,
        "",
        f"Simulated: {simulated['users']} users who each wait for their answer. Three of the article's rows "
        f"give the work of one request: {short(simulated['handler_ms'])} ms in a worker and "
        f"{short(simulated['call_ms'])} ms in the model server, of which threads do "
        f"{simulated['parallel_share']:.0%} side by side. 1,1,36,36,36 and 36,8,1,1,1 are predictions.",
    ]


def _swapping(found: dict[str, Any]) -> Table:
    loading, back, together = found["loading"], found["back"], found["together"]
    lines = ["| the small model's latency | p50, ms | p99, ms |", "|---|---:|---:|"]
    for phase in dict.fromkeys(one["phase"] for one in loading):
        cells = [spread(loading, what, phase=phase) for what in ("p50_ms", "p99_ms")]
        lines.append(row(phase, *cells))
    for way in ("one process", "a process each"):
        for busy in (False, True):
            label = f"{way}, the other model {'busy' if busy else 'idle'}"
            cells = [spread(together, what, way=way, busy=busy) for what in ("p50_ms", "p99_ms")]
            lines.append(row(label, *cells))
    return [
        *lines,
        "",
        f'From "roll back" until the old version answers everything: {spread(back, "kept_ms")} ms where it '
        f"is still loaded, {spread(back, 'loaded_again_ms')} ms where it must be loaded again first. The "
        f"large one took {spread(loading, 'seconds', phase='while another is loaded')} s to load.",
    ]


def _splitting(found: list[dict[str, Any]]) -> Table:
    lines = [
        "| 500 rows, ms | whole | 10 x 50 | splitting | chosen by the client | its parts |",
        "|---|---:|---:|---|---:|---:|",
    ]
    words = {SHOWS: "wins", OTHER_WAY: "loses"}
    for where in dict.fromkeys(one["where"] for one in found):
        whole, split, chosen = (
            spread(found, "latency_ms", where=where, way=way)
            for way in ("whole", "10 x 50", "chosen")
        )
        won = words.get(whole_against_split(found, where).verdict, "makes no difference")
        chose = sorted(set(values(found, "parts", where=where, way="chosen")))
        parts = ", ".join(map(str, chose))
        lines.append(row(where, whole, split, won, chosen, parts))
    return lines


@dataclass(frozen=True)
class PagePart:
    picture: str
    title: str
    words: str
    table: Callable[[Any], list[str]]
    of: Callable[[Any], Any] = lambda found: found
    """What of an experiment's rows the table takes."""


PARTS: dict[str, list[PagePart]] = {
    "baseline": [
        PagePart(
            "baseline",
            "The model out of the web worker (S0, S1)",
            "A Keras network of two dense layers of 512. Flask loads it into every worker, behind "
            "Gunicorn; ours is the endpoint on this machine with our handler. Most of what "
            "`model.predict` takes is Keras itself; the direct call leaves that out.",
            _baseline,
        ),
        PagePart(
            "memory",
            "Memory as the model grows (S1)",
            "Proportional set size of all processes, after some requests; measured once.",
            _memory,
            lambda found: found["memory"],
        ),
    ],
    "transport": [
        PagePart(
            "transport",
            "Body and transport (S0, S4)",
            "From the client's call with an array until it has the decoded answer; rows of 256 "
            "float32, about 2 KB, 200 KB and 4 MB as JSON.",
            _transport,
        )
    ],
    "settings": [
        PagePart(
            "settings",
            "Settings as a tuple (S2)",
            "The article's ml.c5.9xlarge has 36 cores. Here every 36 is this machine's number of "
            "cores, and the 8 as many at most; 8 callers ask for 111 rows of npy. Beside it the "
            "article's table on a simulated machine of 36 cores: nothing is computed there.",
            _settings,
        )
    ],
    "swapping": [
        PagePart(
            "swapping",
            "Several models, and the way back (S3)",
            "Multi-model mode with 4 Gunicorn threads, then with the image's default of one; two callers, "
            "one row each; the model that comes and goes has 400 MB of weights. Then two models, one "
            "caller each.",
            _swapping,
        )
    ],
    "splitting": [
        PagePart(
            "splitting",
            "Splitting a batch (S4)",
            "On the endpoint, and on simulated cores: a server that waits 0.3 ms for each row and "
            "computes nothing. The client chooses after 20 batches of learning.",
            _splitting,
        )
    ],
}
