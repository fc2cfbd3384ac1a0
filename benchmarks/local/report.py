"""The part of docs/performance.md on the local container and the local AWS."""

from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, bounds_table, table

# What is wanted of each way, in CPU-ms per request. Source: the requirements of this project.
MOST_CPU_MS = {"without code": 1.2, "empty handler": 1.5}
MOST_READY_SECONDS = 6.0
MOST_UP_SECONDS, MOST_UP_MB = 1.0, 150.0
Rounds = dict[str, list[dict[str, Any]]]


def fields(result: Result) -> dict[str, Any]:
    rounds = result["rounds"]
    return {
        "starts": len(_ready(rounds)) // len(rounds),
        "ways": _ways(rounds),
        "bounds": bounds_table([*_bounds(rounds), *_local_aws(result.get("starts", []))]),
    }


def _ways(rounds: Rounds) -> list[str]:
    head = ("", "nginx stand-in", "worker", "model server", "together, CPU-ms", "requests/s")
    rows = []
    for way, runs in rounds.items():
        cells = []
        for part in ("front", "worker", "model server"):
            costs = [run["cpu_ms_per_request"].get(part) for run in runs]
            cells.append("" if None in costs else f"{median(costs):.2f}")
        rate, p50, p99 = (
            median(run[key] for run in runs) for key in ("requests_per_second", "p50_ms", "p99_ms")
        )
        cells += [f"{median(_together(runs)):.2f}", f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}"]
        rows.append((way, *cells))
    return table((*head, "p50, ms", "p99, ms"), rows)


def _bounds(rounds: Rounds) -> list[Bound]:
    label = "seconds until ready, after TensorFlow is imported"
    return [
        *(
            Bound(label=f"CPU-ms per request, {way}", values=_together(rounds[way]), most=most)
            for way, most in MOST_CPU_MS.items()
        ),
        Bound(label=label, values=_ready(rounds), most=MOST_READY_SECONDS),
    ]


def _ready(rounds: Rounds) -> list[float]:
    return [run["ready_after_import_seconds"] for runs in rounds.values() for run in runs]


def _together(runs: list[dict[str, Any]]) -> list[float]:
    return [float(sum(run["cpu_ms_per_request"].values())) for run in runs]


def _local_aws(starts: list[dict[str, float]]) -> list[Bound]:
    """`servable-local up`, from its call to its return, when requests are answered."""
    if not starts:
        return []
    seconds, memory = ([run[key] for run in starts] for key in ("seconds", "memory_mb"))
    label = "memory of the local AWS after it"
    return [
        Bound(label="seconds of `servable-local up`", values=seconds, most=MOST_UP_SECONDS),
        Bound(label=label, values=memory, most=MOST_UP_MB, form=".0f", unit=" MB"),
    ]
