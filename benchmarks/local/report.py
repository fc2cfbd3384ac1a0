"""The local container's part of docs/performance.md, from what `make bench-local` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, at_most, ran_on, read, row
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is wanted of each way, in CPU-ms per request. Source: the requirements of this project.
WANTED_CPU_MS = {"without code": 1.2, "empty handler": 1.5}
WANTED_READY_SECONDS = 6.0
Rounds = dict[str, list[dict[str, Any]]]


def section() -> str:
    result = read(RESULT)
    rounds = result["rounds"]
    parts = (_how(result), _ways(rounds), _targets(rounds))
    return page_section("The endpoint on this computer", "local", *parts)


def _how(result: dict[str, Any]) -> list[str]:
    count = len(next(iter(result["rounds"].values())))
    return [
        f"One row of 256 float32 as JSON, {result['body_bytes']:,} bytes, into a model that hardly",
        "computes anything.",
        f"Median of {count} starts each, in turn; {result['seconds']:g} s of load over "
        f"{result['connections']} kept connections by",
        "`benchmarks/callers.py` (Python threads and bare sockets), on the same cores.",
        "CPU time is that of the endpoint's processes, user and system, from /proc. The nginx",
        "stand-in has NGINX's place in the container; the worker is Gunicorn's. It says what this local",
        "container costs, and nothing of the image's: NGINX and TensorFlow Serving are C++.",
        "",
        ran_on(result["machine"]),
    ]


def _ways(rounds: Rounds) -> list[str]:
    lines = [
        "| | nginx stand-in | worker | model server | together, CPU-ms | requests/s | p50, ms | p99, ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for way, of in rounds.items():
        cpu = [one["cpu_ms_per_request"] for one in of]
        parts = [
            f"{median(values):.2f}" if (values := [one[part] for one in cpu if part in one]) else ""
            for part in ("front", "worker", "model server")
        ]
        rate, p50, p99 = (
            median(one[key] for one in of) for key in ("requests_per_second", "p50_ms", "p99_ms")
        )
        together = f"{median(_together(of)):.2f}"
        lines.append(row(way, *parts, together, f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}"))
    return lines


def _targets(rounds: Rounds) -> list[str]:
    ready = [one["ready_after_import_seconds"] for of in rounds.values() for one in of]
    return [
        *WITH_SPREAD,
        *(
            at_most(f"CPU-ms per request, {way}", _together(rounds[way]), wanted)
            for way, wanted in WANTED_CPU_MS.items()
        ),
        at_most("seconds until ready, after TensorFlow is imported", ready, WANTED_READY_SECONDS),
    ]


def _together(of: list[dict[str, Any]]) -> list[float]:
    return [float(sum(one["cpu_ms_per_request"].values())) for one in of]
