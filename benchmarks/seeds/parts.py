"""What the page says about each experiment: a title, a few words, and a table that is a picture too."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.report import row
from benchmarks.seeds.claims import OTHER_WAY, SHOWS, whole_against_split
from benchmarks.seeds.results import ARTICLE, short, spread, spread_of, values

SIZES = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Series to group to the values of the repeats."""

    groups: list[str]
    series: dict[str, list[list[float]]]
    more: dict[str, list[str]] = field(default_factory=dict)
    """Columns of words, one for each group; no picture has them."""


@dataclass(frozen=True, kw_only=True)
class PagePart:
    title: str
    words: str
    corner: str
    """What the table's rows are, or what is measured."""
    grid: Callable[[Any], Grid]
    series_are_rows: bool = False
    after: Callable[[Any], list[str]] = lambda found: []
    """Lines below the table."""
    picture_title: str
    unit: str

    def table(self, found: Any) -> list[str]:
        grid, rows = self.grid(found), []
        if self.series_are_rows:
            head = grid.groups
            rows = [row(name, *map(_cell, cells)) for name, cells in grid.series.items()]
        else:
            head = [*grid.series, *grid.more]
            for at, group in enumerate(grid.groups):
                cells = [_cell(of[at]) for of in grid.series.values()]
                rows.append(row(group, *cells, *(words[at] for words in grid.more.values())))
        return [f"| {self.corner} | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}", *rows]

    def lines(self, found: Any) -> list[str]:
        return [*self.table(found), *self.after(found)]


def _cell(found: list[float]) -> str:
    """One value is shown alone: nothing was repeated."""
    return spread_of(found) if len(found) > 1 else short(median(found))


def _baseline(found: dict[str, Any]) -> Grid:
    requests, columns = found["requests"], [("latency_ms", 1), ("cpu_ms", 1)]
    columns += [(what, 111) for what, _ in columns]
    words = {"latency_ms": "latency", "cpu_ms": "CPU"}
    return Grid(
        groups=[f"{words[what]}, {SIZES[rows]}, ms" for what, rows in columns],
        series={
            way: [values(requests, what, way=way, rows=rows) for what, rows in columns]
            for way in sorted({request["way"] for request in requests})
        },
    )


def _rates(found: dict[str, Any]) -> list[str]:
    lines = ["", "| requests/s, 8 callers, 1 row | 1 worker | 4 workers |", "|---|---:|---:|"]
    for way in ("Flask, model.call", "ours, JSON"):
        cells = [
            spread(found["throughput"], "requests_per_second", way=way, workers=workers)
            for workers in (1, 4)
        ]
        lines.append(row(way, *cells))
    difference = found["largest_difference"]
    return [*lines, "", f"The answers to the same 111 rows differ by at most {difference:.0e}."]


def _memory(found: dict[str, Any]) -> Grid:
    growing = found["memory"]["growing"]
    return Grid(
        groups=[short(one["weights_mb"]) for one in growing if one["way"] == "ours"],
        series={
            f"{way}, {workers} worker{'s' if workers != '1' else ''}": [
                [one["memory_mb"][workers]] for one in growing if one["way"] == way
            ]
            for way in ("Flask", "ours")
            for workers in ("1", "4")
        },
    )


def _wall(found: dict[str, Any]) -> list[str]:
    wall_mb, twelve = found["memory"]["wall_mb"], found["memory"]["ours_at_twelve"]
    wall = found["memory"]["flask_wall"]
    fits = [one["workers"] for one in wall if one["memory_mb"] <= wall_mb]
    beyond = [one for one in wall if one["memory_mb"] > wall_mb]
    more = f" ({beyond[0]['workers']} take {short(beyond[0]['memory_mb'])} MB)" if beyond else ""
    return [
        "",
        f"With the largest model {max(fits, default=0)} of Flask's workers fit into {wall_mb:,} MB{more}. "
        f"{twelve['workers']} workers before one model server take {short(twelve['memory_mb'])} MB.",
    ]


def _transport(found: list[dict[str, Any]]) -> Grid:
    return Grid(
        groups=list(SIZES.values()),
        series={
            f"{form}, {inside}": [
                values(found, "latency_ms", transport=transport, form=form, rows=rows)
                for rows in SIZES
            ]
            for transport, inside in (("rest", "REST"), ("grpc", "gRPC"))
            for form in ("json", "npy", "protobuf")
        },
    )


def _settings(found: dict[str, Any]) -> Grid:
    simulated, here = found["simulated"], found["here"]
    scaled = {tuple(one["article"]): one["here"] for one in here}

    def rates(rows: list[dict[str, Any]]) -> list[list[float]]:
        return [values(rows, "requests_per_second", article=list(one)) for one in ARTICLE]

    return Grid(
        groups=[",".join(map(str, one)) for one in ARTICLE],
        series={
            "article, per second": [[rate] for rate in ARTICLE.values()],
            f"simulated, {simulated['cores']} cores": rates(simulated["rows"]),
            "requests/s here": rates(here),
        },
        more={"scaled to here": [",".join(map(str, scaled[one])) for one in ARTICLE]},
    )


def _simulated(found: dict[str, Any]) -> list[str]:
    simulated = found["simulated"]
    return [
        "",
        f"Simulated: {simulated['users']} users who each wait for their answer. Three of the article's rows "
        f"give the work of one request: {short(simulated['handler_ms'])} ms in a worker and "
        f"{short(simulated['call_ms'])} ms in the model server, of which threads do "
        f"{simulated['parallel_share']:.0%} side by side. 1,1,36,36,36 and 36,8,1,1,1 are predictions.",
    ]


def _swapping(found: dict[str, Any]) -> Grid:
    loading, together = found["loading"], found["together"]
    cells: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        phase: (loading, {"phase": phase})
        for phase in dict.fromkeys(one["phase"] for one in loading)
    }
    for way in ("one process", "a process each"):
        for busy in (False, True):
            label = f"{way}, the other model {'busy' if busy else 'idle'}"
            cells[label] = together, {"way": way, "busy": busy}
    return Grid(
        groups=[*cells],
        series={
            f"{percentile}, ms": [
                values(rows, f"{percentile}_ms", **wanted) for rows, wanted in cells.values()
            ]
            for percentile in ("p50", "p99")
        },
    )


def _back(found: dict[str, Any]) -> list[str]:
    back, loading = found["back"], found["loading"]
    return [
        "",
        f'From "roll back" until the old version answers everything: {spread(back, "kept_ms")} ms where it '
        f"is still loaded, {spread(back, 'loaded_again_ms')} ms where it must be loaded again first. The "
        f"large one took {spread(loading, 'seconds', phase='while another is loaded')} s to load.",
    ]


def _splitting(found: list[dict[str, Any]]) -> Grid:
    places = list(dict.fromkeys(one["where"] for one in found))
    verdicts = {SHOWS: "wins", OTHER_WAY: "loses"}
    ways = {"whole": "whole", "10 x 50": "10 x 50", "chosen": "chosen by the client"}
    return Grid(
        groups=places,
        series={
            name: [values(found, "latency_ms", where=where, way=way) for where in places]
            for way, name in ways.items()
        },
        more={
            "its parts": [
                ", ".join(map(str, sorted(set(values(found, "parts", where=where, way="chosen")))))
                for where in places
            ],
            "splitting": [
                verdicts.get(whole_against_split(found, where).verdict, "makes no difference")
                for where in places
            ],
        },
    )


PARTS: dict[str, dict[str, PagePart]] = {
    "baseline": {
        "baseline": PagePart(
            title="The model out of the web worker (S0, S1)",
            words="A Keras network of two dense layers of 512. Flask loads it into every worker, behind "
            "Gunicorn; ours is the endpoint on this computer with our handler. Most of what "
            "`model.predict` takes is Keras itself; the direct call leaves that out.",
            corner="one request",
            grid=_baseline,
            series_are_rows=True,
            after=_rates,
            picture_title="One request: Flask with Keras inside, and the deployed shape",
            unit="ms (log)",
        ),
        "memory": PagePart(
            title="Memory as the model grows (S1)",
            words="Proportional set size of all processes, after some requests; measured once.",
            corner="weights, MB",
            grid=_memory,
            after=_wall,
            picture_title="Memory of all processes as the model grows, by MB of weights",
            unit="memory, MB (log)",
        ),
    },
    "transport": {
        "transport": PagePart(
            title="Body and transport (S0, S4)",
            words="From the client's call with an array until it has the decoded answer; rows of 256 "
            "float32, about 2 KB, 200 KB and 4 MB as JSON.",
            corner="body, transport inside: latency, ms",
            grid=_transport,
            series_are_rows=True,
            picture_title="From the client's call to the decoded answer: the body, and what is spoken inside",
            unit="latency, ms (log)",
        )
    },
    "settings": {
        "settings": PagePart(
            title="Settings as a tuple (S2)",
            words="The article's ml.c5.9xlarge has 36 cores. Here every 36 is this computer's number of "
            "cores, and the 8 as many at most; 8 callers ask for 111 rows of npy. Beside it the "
            "article's table on a simulated computer of 36 cores: nothing is computed there.",
            corner="workers, TFS, OMP, inter, intra",
            grid=_settings,
            after=_simulated,
            picture_title="Settings as a tuple: workers, model servers, OMP, inter-op, intra-op",
            unit="requests/s (log)",
        )
    },
    "swapping": {
        "swapping": PagePart(
            title="Several models, loaded and unloaded (S3)",
            words="Multi-model mode as the image's code up to 2.19 has it (gthread; 2.20 uses gevent), with "
            "4 Gunicorn threads, then with the image's default of one; two callers, one row each; the model "
            "that comes and goes has 400 MB of weights. Then two models, one caller each.",
            corner="the small model's latency",
            grid=_swapping,
            after=_back,
            picture_title="What those who ask a small model notice of a large one",
            unit="latency, ms (log)",
        )
    },
    "splitting": {
        "splitting": PagePart(
            title="Splitting a batch (S4)",
            words="On the endpoint, and on simulated cores: a server that waits 0.3 ms for each row and "
            "computes nothing. The client chooses after 20 batches of learning.",
            corner="500 rows, ms",
            grid=_splitting,
            picture_title="A batch of 500 rows",
            unit="latency, ms (log)",
        )
    },
}
"""Experiment -> picture's name -> part of the page."""
