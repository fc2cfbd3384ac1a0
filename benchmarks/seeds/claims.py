"""Every claim that this page makes, computed from one run's rows."""

from typing import Any

from benchmarks.ratio import ratio
from benchmarks.seeds.claim import Claim
from benchmarks.seeds.rows import values
from benchmarks.seeds.settings import ARTICLE


def claims(result: dict[str, Any]) -> list[Claim]:
    return [
        *_baseline(result["baseline"]),
        *_transport(result["transport"]),
        *_settings(result["settings"]),
        *_swapping(result["swapping"]),
        *_splitting(result["splitting"]),
    ]


def _baseline(found: dict[str, Any]) -> list[Claim]:
    def cpu(way: str, rows: int) -> list[float]:
        return values(found["requests"], "cpu_ms", way=way, rows=rows)

    def latency(way: str) -> list[float]:
        return values(found["requests"], "latency_ms", way=way, rows=1)

    def rate(way: str, workers: int) -> list[float]:
        return values(found["throughput"], "requests_per_second", way=way, workers=workers)

    ours, call, predict = "ours, JSON", "Flask, model.call", "Flask, model.predict"
    return [
        Claim(
            "S0",
            "5 s to 3 s: 1.7x",
            "latency, 1 row, Flask with model.predict against ours",
            ratio(latency(predict), latency(ours)),
        ),
        Claim(
            "S0",
            "5 s to 3 s: 1.7x",
            "latency, 1 row, Flask with the direct call against ours",
            ratio(latency(call), latency(ours)),
        ),
        Claim(
            "S0",
            "",
            "CPU per request, 1 row of JSON, direct call against ours",
            ratio(cpu(call, 1), cpu(ours, 1)),
        ),
        Claim(
            "S0",
            "",
            "CPU per request, 111 rows, direct call with JSON against ours with npy",
            ratio(cpu(call, 111), cpu("ours, npy", 111)),
        ),
        Claim(
            "S1",
            "2 to 12 requests/s: 6x",
            "requests/s with 1 worker, ours against the direct call",
            ratio(rate(ours, 1), rate(call, 1)),
        ),
        Claim(
            "S1",
            "2 to 12 requests/s: 6x",
            "requests/s with 4 workers, ours against the direct call",
            ratio(rate(ours, 4), rate(call, 4)),
        ),
    ]


def _transport(found: list[dict[str, Any]]) -> list[Claim]:
    def latency(transport: str, form: str, rows: int) -> list[float]:
        return values(found, "latency_ms", transport=transport, form=form, rows=rows)

    return [
        Claim(
            "S4",
            "at about 200 KB REST beats gRPC",
            "JSON of 200 KB, gRPC against REST",
            ratio(latency("grpc", "json", 111), latency("rest", "json", 111)),
        ),
        Claim(
            "S4",
            "at about 4 MB gRPC beats REST",
            "JSON of 4 MB, REST against gRPC",
            ratio(latency("rest", "json", 2_230), latency("grpc", "json", 2_230)),
        ),
        Claim(
            "S4",
            "PredictRequest much faster than JSON",
            "4 MB, JSON over REST against protobuf over gRPC",
            ratio(latency("rest", "json", 2_230), latency("grpc", "protobuf", 2_230)),
        ),
        Claim(
            "S0",
            "gRPC much faster than REST for large tensors",
            "protobuf body of 2,230 rows, REST against gRPC inside",
            ratio(latency("rest", "protobuf", 2_230), latency("grpc", "protobuf", 2_230)),
        ),
    ]


def _settings(found: list[dict[str, Any]]) -> list[Claim]:
    first, *others = ARTICLE

    def rate(article: tuple[int, ...]) -> list[float]:
        return values(found, "requests_per_second", article=list(article))

    return [
        Claim(
            "S2",
            f"{ARTICLE[one] / ARTICLE[first]:.1f}x",
            f"requests/s, {_written(one)} against {_written(first)}, scaled to these cores",
            ratio(rate(one), rate(first)),
        )
        for one in others
    ]


def _swapping(found: dict[str, Any]) -> list[Claim]:
    def p99(phase: str) -> list[float]:
        return values(found["loading"], "p99_ms", phase=phase)

    def beside(way: str, busy: bool) -> list[float]:
        return values(found["together"], "p99_ms", way=way, busy=busy)

    back = found["back"]
    return [
        Claim(
            "S3",
            "p99 holds while models are swapped",
            "p99 while another is loaded, against before",
            ratio(p99("while another is loaded"), p99("before")),
            near_one=True,
        ),
        Claim(
            "S3",
            "several models in one process",
            "p99 with the other model busy, one process against a process each",
            ratio(beside("one process", True), beside("a process each", True)),
            near_one=True,
        ),
        Claim(
            "S3",
            "rolling back is quick",
            "until the old version answers, loaded again against kept",
            ratio(values(back, "loaded_again_ms"), values(back, "kept_ms")),
        ),
    ]


def _splitting(found: list[dict[str, Any]]) -> list[Claim]:
    places = list(dict.fromkeys(row["where"] for row in found))

    def latency(where: str, way: str) -> list[float]:
        return values(found, "latency_ms", where=where, way=way)

    def better(where: str) -> list[float]:
        pairs = zip(latency(where, "whole"), latency(where, "10 x 50"), strict=True)
        return [min(pair) for pair in pairs]

    return [
        *(
            Claim(
                "S4",
                "150 ms to under 100 ms: 1.5x",
                f"500 rows whole against 10 x 50, {where}",
                ratio(latency(where, "whole"), latency(where, "10 x 50")),
            )
            for where in places
        ),
        *(
            Claim(
                "ours",
                "",
                f"the client's own choice against the better of both, {where}",
                ratio(latency(where, "chosen"), better(where)),
                near_one=True,
            )
            for where in places
        ),
    ]


def _written(settings: tuple[int, ...]) -> str:
    return ",".join(map(str, settings))
