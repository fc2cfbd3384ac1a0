"""The client's part of docs/performance.md."""

from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, quotients, target, ways_table

# What is compared with what, and the most it may be. Source: the requirements of this project.
BOUNDS = [
    ("one row, the form chosen by the client", "client, small", "boto3, JSON, small", 1.15),
    ("one row, JSON", "client, JSON, small", "boto3, JSON, small", 1.15),
    ("2,230 rows, the form chosen by the client", "client, large", "boto3, JSON, large", 0.2),
    ("2,230 rows, npy", "client, npy, large", "boto3, npy ready, large", 1.3),
    ("2,230 rows, protobuf", "client, protobuf, large", "boto3, protobuf ready, large", 1.8),
]
MOST_IMPORT_SECONDS = 0.4


def fields(result: Result) -> dict[str, Any]:
    costs = result["cpu_ms_per_call"]
    lines = ["| client / boto3 | median | interval | wanted | |", "|---|---:|---:|---:|---|"]
    for label, ours, theirs, most in BOUNDS:
        ratios = sorted(quotients(costs[ours], costs[theirs]))
        middle, (low, high) = median(ratios), interval(ratios)
        limits = f"{low:.3f}x to {high:.3f}x", f"at most {most:g}x"
        lines.append(target(label, f"{middle:.3f}x", *limits, middle <= most))
    seconds = result["import_seconds"]
    label = "`import servable_client`"
    lines.append(Bound(label=label, values=seconds, most=MOST_IMPORT_SECONDS, unit=" s").row())
    return {
        "blocks": len(next(iter(costs.values()))),
        "shorter": ", ".join(
            f"{calls} calls for {name}" for name, calls in result["shorter"].items()
        ),
        "ways": ways_table(("CPU-ms per call", "lowest to highest"), costs),
        "bounds": lines,
    }


def interval(ordered: list[float]) -> tuple[float, float]:
    """Confidence interval of the median, about 95 %, by order statistics, without a distribution."""
    # Half of the values, less about two deviations of a binomial: 6th and 15th of 20.
    low = max(0, round(len(ordered) / 2 - len(ordered) ** 0.5 + 0.4) - 1)
    return ordered[low], ordered[len(ordered) - 1 - low]
