"""Every claim that the page makes, computed from the rows of one experiment."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.ratio import ratio
from benchmarks.seeds.article_settings import ARTICLE, FIRST, ONES, SERVERS, WORKERS
from benchmarks.seeds.baseline_claims import baseline
from benchmarks.seeds.claim import CORES, Claim
from benchmarks.seeds.rows import middle, values

WORSE_BY_FIVE_PERCENT = 1.05
DOUBLE = "The double's model server is Python: what gRPC and JSON cost there is not what C++ takes."


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
    return [
        *(
            Claim("S3", holds, f"p99 {phase}, against before",
                  ratio(p99(phase=phase), p99(phase="before")),
                  at_most=WORSE_BY_FIVE_PERCENT, differs=f"Loading takes a core. {CORES}")
            for phase in ("while another is loaded", "with both loaded",
                          "in the second in which it is unloaded")
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
