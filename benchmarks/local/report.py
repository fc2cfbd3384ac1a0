"""The part of docs/performance.md on the local container and AWS: what `make bench-local` measured last."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, at_most, ran_on, read, row
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is wanted of each way, in CPU-ms per request. Source: the requirements of this project.
WANTED_CPU_MS = {"without code": 1.2, "empty handler": 1.5}
WANTED_READY_SECONDS = 6.0
WANTED_UP_SECONDS, WANTED_UP_MB = 1.0, 150.0
WANTED_LARGE_GB, WANTED_LARGE_SECONDS, WANTED_LARGE_MB = 3, 60.0, 400.0
Rounds = dict[str, list[dict[str, Any]]]


def section() -> str:
    result = read(RESULT)
    rounds = result["rounds"]
    parts = [_how(result), _ways(rounds), _targets(rounds)]
    if "starts" in result:
        parts += [_aws(), _started(result["starts"]), _large(result["large"])]
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


def _aws() -> list[str]:
    return [
        "The local AWS. `servable-local up`, from its call to its return, when requests are answered; memory",
        "of the process that it leaves. Models of random weights, which hardly become smaller when packed:",
        "seconds of the whole `cdk deploy` (synth, packing, upload, unpacking and loading included), and the",
        "most memory that the AWS's process took until then.",
    ]


def _started(starts: Sequence[dict[str, float]]) -> list[str]:
    seconds, memory = ([one[key] for one in starts] for key in ("seconds", "memory_mb"))
    return [
        *WITH_SPREAD,
        at_most("seconds of `servable-local up`", seconds, WANTED_UP_SECONDS),
        at_most("memory after it", memory, WANTED_UP_MB, ".0f", " MB"),
    ]


def _large(sizes: Sequence[dict[str, float]]) -> list[str]:
    lines = [
        "| model | seconds of `cdk deploy` | seconds a GB | memory | |",
        "|---:|---:|---:|---:|---|",
    ]
    for one in sizes:
        size, seconds, memory = one["gigabytes"], one["seconds"], one["memory_mb"]
        met = seconds <= WANTED_LARGE_SECONDS and memory <= WANTED_LARGE_MB
        wanted = f"at most {WANTED_LARGE_SECONDS:.0f} s and {WANTED_LARGE_MB:.0f} MB: "
        verdict = wanted + ("met" if met else "**not met**") if size == WANTED_LARGE_GB else ""
        per_gb = f"{seconds / size:.1f}"
        lines.append(row(f"{size:g} GB", f"{seconds:.0f}", per_gb, f"{memory:.0f} MB", verdict))
    return lines
