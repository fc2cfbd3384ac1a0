"""The double's part of docs/performance.md, from what `make bench-local` measured last."""

import json
from pathlib import Path
from statistics import median
from typing import Any

RESULT = Path(__file__).parent / "result.json"
# What is wanted of each way, in CPU-ms per request. Source: the requirements of this project.
WANTED_CPU_MS = {"without code": 1.2, "empty handler": 1.5}
WANTED_READY_SECONDS = 6.0


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    return "\n".join(
        [
            "## The endpoint on this machine",
            "",
            "Generated from `benchmarks/local/result.json`; measured by `make bench-local`.",
            "",
            *_how(result),
            "",
            *_ways(result["rounds"]),
            "",
            *_targets(result["rounds"]),
            "",
        ]
    )


def _how(result: dict[str, Any]) -> list[str]:
    machine, rounds = result["machine"], result["rounds"]
    count = len(next(iter(rounds.values())))
    return [
        f"One row of 256 float32 as JSON, {result['body_bytes']:,} bytes, into one dense layer.",
        f"Median of {count} starts each, in turn; {result['seconds']:g} s of load over "
        f"{result['connections']} kept connections by",
        "`benchmarks/local/generator.py` (Python threads and bare sockets), on the same cores.",
        "CPU time is that of the endpoint's processes, user and system, from /proc. The front is",
        "what NGINX is in the container, the worker is Gunicorn's. It says what this double costs,",
        "and nothing of the container: NGINX and TensorFlow Serving are C++.",
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
        f"load average {machine['load_before']} before the run; {machine['date']}.",
    ]


def _ways(rounds: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        "| | front | worker | model server | together, CPU-ms | requests/s | p50, ms | p99, ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for way, of in rounds.items():
        cpu = [one["cpu_ms_per_request"] for one in of]
        parts = [
            f"{median(values):.2f}" if (values := [one[part] for one in cpu if part in one]) else ""
            for part in ("front", "worker", "model server")
        ]
        middle = [median(one[key] for one in of) for key in ("p50_ms", "p99_ms")]
        rate = median(one["requests_per_second"] for one in of)
        lines.append(
            f"| {way} | {' | '.join(parts)} | {median(map(_together, of)):.2f} | "
            f"{rate:,.0f} | {middle[0]:.1f} | {middle[1]:.1f} |"
        )
    return lines


def _targets(rounds: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = ["| | measured | lowest to highest | wanted | |", "|---|---:|---:|---:|---|"]
    for way, wanted in WANTED_CPU_MS.items():
        found = list(map(_together, rounds[way]))
        lines.append(_row(f"CPU-ms per request, {way}", found, wanted))
    ready = [one["ready_after_import_seconds"] for of in rounds.values() for one in of]
    label = "seconds until ready, after TensorFlow is imported"
    return [*lines, _row(label, ready, WANTED_READY_SECONDS)]


def _together(one: dict[str, Any]) -> float:
    return float(sum(one["cpu_ms_per_request"].values()))


def _row(label: str, found: list[float], wanted: float) -> str:
    met = "met" if median(found) <= wanted else "**not met**"
    spread = f"{min(found):.2f} to {max(found):.2f}"
    return f"| {label} | {median(found):.2f} | {spread} | at most {wanted:g} | {met} |"
