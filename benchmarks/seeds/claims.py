"""Every claim of the articles, and what was found here: computed from the rows of one experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.ratio import Ratio, ratio
from benchmarks.report import row
from benchmarks.seeds.results import ARTICLE, FIRST, ONES, SERVERS, WORKERS, middle, values

SHOWS, NOT_SHOWN, OTHER_WAY, UNDECIDED = "shows", "did not show", "the other way round", "undecided"
# Why much does not show here.
CORES = "Callers, workers and the model share this computer's cores."
WORSE_BY_FIVE_PERCENT = 1.05
DOUBLE = "The local container's model server is Python: what gRPC and JSON cost there is not what C++ takes."
# 40 % lower is 1 / (1 - 0.4) times as much on the other side.
FORTY_PERCENT = 1 / 0.6


@dataclass(frozen=True)
class Counts:
    """Two whole numbers that do not scatter, so not a ratio."""

    ours: int
    theirs: int
    at_least: bool = False
    """Ours was not tried any further."""

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{self.ours} against {self.theirs}"


@dataclass(frozen=True)
class Claim:
    source: str
    """As S2."""
    article: str
    """What the article reports, with its numbers."""
    here: str
    """What was compared here."""
    found: Ratio | Counts
    """Above 1: the article's side is better here too."""
    at_least: float = 1.0
    at_most: float | None = None
    """The claim is that nothing gets worse: the ratio stays below this; `at_least` is not asked."""
    differs: str = ""
    """What is different here, for where it does not show."""

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
        cells = (self.source, self.article, self.here, str(self.found), self._wanted, self.verdict)
        return row(*cells)

    def missing(self) -> str:
        """A sentence for the list of what did not show."""
        end = f" {self.differs}" if self.differs else ""
        return f"- {self.source}, {self.here}: {self.found}, {self.verdict}.{end}"

    @property
    def _wanted(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        if isinstance(self.found, Counts):
            return "more"
        return "above 1" if self.at_least == 1 else f"at least {self.at_least:.2f}"


def baseline(found: dict[str, Any]) -> list[Claim]:
    cpu = partial(values, found["requests"], "cpu_ms")
    latency = partial(values, found["requests"], "latency_ms", rows=1)
    rate = partial(values, found["throughput"], "requests_per_second")
    ours, call, predict = "ours, JSON", "Flask, model.call", "Flask, model.predict"
    time, more = "5 s to 3 s: 40 % less, 1.7x", "2 to 12 requests/s: 6x"
    hops = "A small request passes nginx, a worker and a model server; Flask computes where it is."
    wall, memory = found["memory"]["flask_wall"], found["memory"]
    fits = max((row["workers"] for row in wall if row["memory_mb"] <= memory["wall_mb"]), default=0)
    twelve = memory["ours_at_twelve"]
    beside = twelve["workers"] if twelve["memory_mb"] <= memory["wall_mb"] else 0
    return [
        Claim("S0", time, "latency, 1 row, Flask with model.predict against ours",
              ratio(latency(way=predict), latency(way=ours))),
        Claim("S0", time, "latency, 1 row, Flask with the direct call against ours",
              ratio(latency(way=call), latency(way=ours)), differs=hops),
        *(
            Claim("S0", "40 % less", f"CPU per request, {rows} {'row' if rows == 1 else 'rows'}, "
                  f"{flask} against {way}",
                  ratio(cpu(way=flask, rows=rows), cpu(way=way, rows=rows)),
                  at_least=FORTY_PERCENT, differs=_why(found["requests"], flask, way, rows))
            for rows in (1, 111)
            for flask, way in ((call, ours), (f"{call}, npy", "ours, npy"), (call, "ours, npy"))
        ),
        *(
            Claim("S1", more, f"requests/s, {workers} worker{'s' if workers > 1 else ''}, "
                  "ours against the direct call",
                  ratio(rate(way=ours, workers=workers), rate(way=call, workers=workers)),
                  differs=CORES)
            for workers in (1, 4)
        ),
        Claim("S1", "1 worker to 12", f"workers in {memory['wall_mb']:,} MB with the largest model, "
              "ours against Flask", Counts(beside, fits, at_least=True)),
    ]  # fmt: skip


def _why(rows: list[dict[str, Any]], flask: str, way: str, count: int) -> str:
    theirs = middle(rows, "cpu_ms", way=flask, rows=count)
    ours = middle(rows, "cpu_ms", way=way, rows=count)
    server = middle(rows, "model_server_ms", way=way, rows=count)
    less = f"{abs(1 - ours / theirs):.0%} {'lower' if ours < theirs else 'higher'}"
    said = f"{ours:.2f} CPU-ms against {theirs:.2f}, {less}. Of ours the model server takes {server:.2f}"
    if "JSON" not in way:
        return f"{said}, what stands before it the rest."
    npy = middle(rows, "cpu_ms", way="ours, npy", rows=count)
    return (
        f"{said}: it reads and writes the text again, and the local container's does so in Python. "
        f"With npy, which is not text, all of ours is {npy:.2f}."
    )


def transport(found: list[dict[str, Any]]) -> list[Claim]:
    latency = partial(values, found, "latency_ms")

    def against(above: tuple[str, str], below: tuple[str, str], rows: int) -> Any:
        one, other = (latency(transport=way, form=form, rows=rows) for way, form in (above, below))
        return ratio(one, other)

    return [
        Claim("S4", "at about 200 KB REST beats gRPC", "JSON of 200 KB, gRPC against REST inside",
              against(("grpc", "json"), ("rest", "json"), 111), differs=DOUBLE),
        Claim("S4", "at about 4 MB gRPC beats REST", "JSON of 4 MB, REST against gRPC inside",
              against(("rest", "json"), ("grpc", "json"), 2_230), differs=DOUBLE),
        Claim("S4", "PredictRequest much faster than JSON", "2,230 rows, JSON over REST against "
              "protobuf over gRPC", against(("rest", "json"), ("grpc", "protobuf"), 2_230)),
        Claim("S0", "gRPC much faster than REST for large inputs", "protobuf body of 2,230 rows, "
              "REST against gRPC inside", against(("rest", "protobuf"), ("grpc", "protobuf"), 2_230)),
    ]  # fmt: skip


def settings(found: dict[str, Any]) -> list[Claim]:
    measured = {"here": found["here"], "simulated": found["simulated"]["rows"]}

    def rates(rows: str, article: tuple[int, ...]) -> list[float]:
        return values(measured[rows], "requests_per_second", article=list(article))

    def compared(rows: str, one: Any, other: Any, where: str, differs: str) -> Claim:
        here = f"requests/s, {_written(one)} against {_written(other)}, {where}"
        found_here = ratio(rates(rows, one), rates(rows, other))
        return Claim(
            "S2", f"{ARTICLE[one] / ARTICLE[other]:.1f}x", here, found_here, differs=differs
        )

    other_work = f"{CORES} The model is a small one and not the article's."
    free = "Simulated threads cost nothing to switch, so what too many of them take cannot show."
    return [
        *(compared("here", one, FIRST, "36 scaled to these cores", other_work) for one in [*ARTICLE][1:]),
        compared("simulated", ONES, FIRST, "simulated", free),
        compared("simulated", SERVERS, WORKERS, "simulated", free),
    ]  # fmt: skip


def swapping(found: dict[str, Any]) -> list[Claim]:
    p99 = partial(values, found["loading"], "p99_ms")
    beside, back = partial(values, found["together"], "p99_ms"), partial(values, found["back"])
    holds, one = "p99 holds while models are swapped", "several models in one process"
    alone = (
        "With the image's code up to 2.19, whose default is one thread: nobody is answered before the load "
        "has ended. 2.20 uses gevent there, and was not measured."
    )
    loads = f"Loading takes a core. {CORES}"
    while_loading = "while another is loaded"
    return [
        *(
            Claim("S3", holds, f"p99 {phase}, against before",
                  ratio(p99(phase=phase), p99(phase=before)),
                  at_most=WORSE_BY_FIVE_PERCENT, differs=differs)
            for phase, before, differs in (
                (while_loading, "before", loads),
                (f"one thread: {while_loading}", "one thread: before", alone),
                ("with both loaded", "before", CORES),
                ("in the second after it is unloaded", "before", CORES),
            )
        ),
        Claim("S3", one, "p99 with the other model busy, one process against a process each",
              ratio(beside(way="one process", busy=True), beside(way="a process each", busy=True)),
              at_most=WORSE_BY_FIVE_PERCENT),
        *(
            Claim("S3", one, f"p99 with the other model busy against idle, {way}",
                  ratio(beside(way=way, busy=True), beside(way=way, busy=False)),
                  at_most=WORSE_BY_FIVE_PERCENT, differs=CORES)
            for way in ("one process", "a process each")
        ),
        Claim("S3", "rolling back is quick", "until the old version answers everything, loaded "
              "again against kept loaded", ratio(back("loaded_again_ms"), back("kept_ms"))),
    ]  # fmt: skip


def splitting(found: list[dict[str, Any]]) -> list[Claim]:
    places = list(dict.fromkeys(row["where"] for row in found))
    latency = partial(values, found, "latency_ms")

    def better(where: str) -> str:
        return min(
            ("whole", "10 x 50"), key=lambda way: middle(found, "latency_ms", where=where, way=way)
        )

    return [
        *(whole_against_split(found, where) for where in places),
        *(
            Claim("ours", "", f"the client's own choice against the better of both ({better(where)}), "
                  f"{where}", ratio(latency(where=where, way="chosen"),
                                    latency(where=where, way=better(where))),
                  at_most=WORSE_BY_FIVE_PERCENT)
            for where in places
        ),
    ]  # fmt: skip


def whole_against_split(found: list[dict[str, Any]], where: str) -> Claim:
    latency = partial(values, found, "latency_ms", where=where)
    return Claim("S4", "150 ms to under 100 ms: 1.5x", f"500 rows whole against 10 x 50, {where}",
                 ratio(latency(way="whole"), latency(way="10 x 50")),
                 differs="Without idle cores there is nobody to compute the other parts.")  # fmt: skip


def _written(settings: tuple[int, ...]) -> str:
    return ",".join(map(str, settings))


CLAIMS: dict[str, Callable[[Any], list[Claim]]] = {
    "baseline": baseline,
    "transport": transport,
    "settings": settings,
    "swapping": swapping,
    "splitting": splitting,
}
