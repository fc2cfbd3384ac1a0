"""The rehearsals' part of docs/performance.md."""

from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, bounds_table, row

# Source: the requirements of this project.
MOST_ERROR = 0.15
"""Difference of the computed mean from the measured one, as a share of it."""


def fields(result: Result) -> dict[str, Any]:
    container = result["container"]
    lines = [
        "| of the highest rate | mean | computed | p50 | computed | p99 | computed |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in container["loads"]:
        cells = [
            f"{run[side][name]:.1f} ms"
            for name in ("mean_ms", "p50_ms", "p99_ms")
            for side in ("measured", "computed")
        ]
        lines.append(row(f"{run['share']:.0%}", *cells))
    return {
        "bounds": bounds_table(bounds(result)),
        "container": container,
        "verdict": "met" if error(container) <= MOST_ERROR else "**not met**",
        "loads": lines,
    }


def met(result: Result) -> bool:
    return error(result["container"]) <= MOST_ERROR and all(bound.met for bound in bounds(result))


def bounds(result: Result) -> list[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    day, many = f"a day, up to {result['most_instances']} instances", [result["many_seconds"]]
    policies = "50 policies over 20 random days, two cores"
    return [
        Bound(label=day, values=result["day_seconds"], most=2.0, unit=" s"),
        Bound(label=policies, values=many, most=120.0, form=".0f", unit=" s"),
    ]


def error(container: dict[str, Any]) -> float:
    """The worst of the loads: how far the computed mean is from the measured one, as a share of it."""
    pairs = [(run["computed"]["mean_ms"], run["measured"]["mean_ms"]) for run in container["loads"]]
    return float(max(abs(computed - measured) / measured for computed, measured in pairs))
