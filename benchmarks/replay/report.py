"""The replay's part of docs/performance.md."""

from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, bounds_table


def fields(result: Result) -> dict[str, Any]:
    rates = [run["answered"] / run["seconds"] for run in result["fast"]]
    return {
        "bounds": bounds_table(bounds(result)),
        "rate": median(rates),
        "lowest": min(rates),
        "highest": max(rates),
    }


def bounds(result: Result) -> list[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    memory = [run["memory_mb"] for run in result["fast"]]
    label = f"memory of all processes, {result['requests']:,} requests"
    return [
        Bound(label=label, values=memory, most=300.0, form=".0f", unit=" MB"),
        *(
            Bound(
                label=f"sent late at {result['rate_rps']:g} requests/s, {name}",
                values=[run["send_lag_ms"][name] for run in result["paced"]],
                most=most,
                unit=" ms",
            )
            for name, most in (("p50", 2.0), ("p99", 20.0))
        ),
    ]


def met(result: Result) -> bool:
    """All bounds, without a request that failed."""
    failed = sum(run["failed"] for run in (*result["fast"], *result["paced"]))
    return not failed and all(bound.met for bound in bounds(result))
