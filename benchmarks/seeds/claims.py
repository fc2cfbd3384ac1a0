"""Every claim of the articles, and what was found here: computed from the rows of one experiment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks.tables import Ratio, ratio, row

SHOWS, NOT_SHOWN, OTHER_WAY, UNDECIDED = "shows", "did not show", "the other way round", "undecided"
WORSE_BY_FIVE_PERCENT = 1.05
# 40 % lower is 1 / (1 - 0.4) times as much on the other side.
FORTY_PERCENT = 1 / 0.6
Settings = tuple[int, int, int, int, int]
"""Gunicorn workers, model servers, OpenMP, inter-op and intra-op threads."""
# S2's table of its retrieval model on ml.c5.9xlarge, 36 cores: -> transactions/s
ARTICLE: dict[Settings, float] = {
    (1, 1, 36, 36, 36): 15.87,
    (36, 1, 1, 36, 36): 164.0,
    (1, 1, 1, 1, 1): 33.0834,
    (36, 1, 1, 1, 1): 67.5118,
    (36, 8, 1, 1, 1): 319.078,
}
Row = dict[str, Any]


def values(rows: Sequence[Row], key: str, /, **where: Any) -> list[float]:
    """Values in the order of the repeats. Raises LookupError where there are none."""
    chosen = [row for row in rows if where.items() <= row.items()]
    if not chosen:
        raise LookupError(f"no row with {where}")
    return [row[key] for row in sorted(chosen, key=lambda row: row.get("repeat", 0))]


@dataclass(frozen=True)
class Counts:
    """Two whole numbers that do not scatter, so not a ratio. Ours was not tried any further."""

    ours: int
    theirs: int

    def __str__(self) -> str:
        return f"at least {self.ours} against {self.theirs}"


@dataclass(frozen=True)
class Claim:
    """A claim of an article, `source`, with its numbers; and the comparison made here.

    `found` above 1: the article's side is better here too. With `at_most` the claim is that nothing gets
    worse: the ratio stays below it, and `at_least` does not matter.
    """

    source: str
    article: str
    here: str
    found: Ratio | Counts
    at_least: float = 1.0
    at_most: float | None = None

    @property
    def verdict(self) -> str:
        """By the interval's ends, so that what only seems so is undecided."""
        if isinstance(self.found, Counts):
            return SHOWS if self.found.ours > self.found.theirs else NOT_SHOWN
        low, high = self.found.low, self.found.high
        if self.at_most is not None:
            return SHOWS if high <= self.at_most else NOT_SHOWN if low > self.at_most else UNDECIDED
        if low >= self.at_least and low > 1:
            return SHOWS
        if high < 1:
            return OTHER_WAY
        return NOT_SHOWN if high < self.at_least or low <= 1 else UNDECIDED

    def row(self) -> str:
        wanted = "above 1" if self.at_least == 1 else f"at least {self.at_least:.2f}"
        if self.at_most is not None:
            wanted = f"at most {self.at_most:g}"
        elif isinstance(self.found, Counts):
            wanted = "more"
        return row(self.source, self.article, self.here, str(self.found), wanted, self.verdict)


def baseline(found: dict[str, Any]) -> Iterator[Claim]:
    cpu = partial(values, found["requests"], "cpu_ms")
    latency = partial(values, found["requests"], "latency_ms", rows=1)
    rate = partial(values, found["throughput"], "requests_per_second")
    ours, call = "ours, JSON", "Flask, model.call"
    for way, name in (("Flask, model.predict", "model.predict"), (call, "the direct call")):
        here = f"latency, 1 row, Flask with {name} against ours"
        times = ratio(latency(way=way), latency(way=ours))
        yield Claim("S0", "5 s to 3 s: 40 % less, 1.7x", here, times)
    for rows in (1, 111):
        for flask, way in ((call, ours), (f"{call}, npy", "ours, npy"), (call, "ours, npy")):
            size = "1 row" if rows == 1 else f"{rows} rows"
            here = f"CPU per request, {size}, {flask} against {way}"
            times = ratio(cpu(way=flask, rows=rows), cpu(way=way, rows=rows))
            yield Claim("S0", "40 % less", here, times, at_least=FORTY_PERCENT)
    for workers, name in ((1, "1 worker"), (4, "4 workers")):
        here = f"requests/s, {name}, ours against the direct call"
        times = ratio(rate(way=ours, workers=workers), rate(way=call, workers=workers))
        yield Claim("S1", "2 to 12 requests/s: 6x", here, times)
    memory = found["memory"]
    within = [
        run["workers"] for run in memory["flask_wall"] if run["memory_mb"] <= memory["wall_mb"]
    ]
    twelve = memory["ours_at_twelve"]
    beside = twelve["workers"] if twelve["memory_mb"] <= memory["wall_mb"] else 0
    here = f"workers in {memory['wall_mb']:,} MB with the largest model, ours against Flask"
    yield Claim("S1", "1 worker to 12", here, Counts(beside, max(within, default=0)))


def transport(found: list[Row]) -> Iterator[Claim]:
    latency = partial(values, found, "latency_ms", rows=2_230)
    rest, grpc = partial(latency, transport="rest"), partial(latency, transport="grpc")
    here = "JSON of 200 KB, gRPC against REST inside"
    times = ratio(grpc(form="json", rows=111), rest(form="json", rows=111))
    yield Claim("S4", "at about 200 KB REST beats gRPC", here, times)
    here = "JSON of 4 MB, REST against gRPC inside"
    times = ratio(rest(form="json"), grpc(form="json"))
    yield Claim("S4", "at about 4 MB gRPC beats REST", here, times)
    here = "2,230 rows, JSON over REST against protobuf over gRPC"
    times = ratio(rest(form="json"), grpc(form="protobuf"))
    yield Claim("S4", "PredictRequest much faster than JSON", here, times)
    here = "protobuf body of 2,230 rows, REST against gRPC inside"
    times = ratio(rest(form="protobuf"), grpc(form="protobuf"))
    yield Claim("S0", "gRPC much faster than REST for large inputs", here, times)


def settings(found: dict[str, Any]) -> Iterator[Claim]:
    rate = partial(values, found["here"], "requests_per_second")
    first, *others = ARTICLE
    for article in others:
        names = [",".join(map(str, settings)) for settings in (article, first)]
        times = ratio(rate(article=list(article)), rate(article=list(first)))
        here = f"requests/s, {' against '.join(names)}, 36 scaled to these cores"
        yield Claim("S2", f"{ARTICLE[article] / ARTICLE[first]:.1f}x", here, times)


def swapping(found: dict[str, Any]) -> Iterator[Claim]:
    p99, together = (partial(values, found[key], "p99_ms") for key in ("loading", "together"))
    while_loading, several = "while another is loaded", "several models in one process"
    for phase, before in (
        (while_loading, "before"),
        (f"one thread: {while_loading}", "one thread: before"),
        ("with both loaded", "before"),
        ("in the second after it is unloaded", "before"),
    ):
        times = ratio(p99(phase=phase), p99(phase=before))
        here, article = f"p99 {phase}, against before", "p99 holds while models are swapped"
        yield Claim("S3", article, here, times, at_most=WORSE_BY_FIVE_PERCENT)
    here = "p99 with the other model busy, one process against a process each"
    busy = {way: together(way=way, busy=True) for way in ("one process", "a process each")}
    times = ratio(busy["one process"], busy["a process each"])
    yield Claim("S3", several, here, times, at_most=WORSE_BY_FIVE_PERCENT)
    for way, latencies in busy.items():
        here = f"p99 with the other model busy against idle, {way}"
        times = ratio(latencies, together(way=way, busy=False))
        yield Claim("S3", several, here, times, at_most=WORSE_BY_FIVE_PERCENT)
    here = "until the old version answers everything, loaded again against kept loaded"
    times = ratio(values(found["back"], "loaded_again_ms"), values(found["back"], "kept_ms"))
    yield Claim("S3", "rolling back is quick", here, times)


def splitting(found: list[Row]) -> Iterator[Claim]:
    places = list(dict.fromkeys(row["where"] for row in found))
    for where in places:
        latency = partial(values, found, "latency_ms", where=where)
        times = ratio(latency(way="whole"), latency(way="10 x 50"))
        here = f"500 rows whole against 10 x 50, {where}"
        yield Claim("S4", "150 ms to under 100 ms: 1.5x", here, times)
    for where in places:
        latency = partial(values, found, "latency_ms", where=where)
        middles = {median(latency(way=way)): way for way in ("10 x 50", "whole")}
        better = middles[min(middles)]
        here = f"the client's own choice against the better of both ({better}), {where}"
        times = ratio(latency(way="chosen"), latency(way=better))
        yield Claim("ours", "", here, times, at_most=WORSE_BY_FIVE_PERCENT)


CLAIMS: dict[str, Callable[[Any], Iterator[Claim]]] = {
    "baseline": baseline,
    "transport": transport,
    "settings": settings,
    "swapping": swapping,
    "splitting": splitting,
}
