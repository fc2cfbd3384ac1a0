"""Synth's part of docs/performance.md."""

from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, bounds_table, ways_table

EMPTY = "an app with nothing in it"
ALL = "every environment"
MORE = "ten more environments"
NAG = "every environment, cdk-nag"
VALIDATED = "every environment, validation"


def fields(result: Result) -> dict[str, Any]:
    seconds = result["seconds"]
    return {
        "runs": len(seconds[EMPTY]),
        "ways": ways_table(("s", "fastest to slowest"), seconds),
        "bounds": bounds_table(bounds(result)),
    }


def bounds(result: Result) -> list[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    middle = {way: median(runs) for way, runs in result["seconds"].items()}
    each = (middle[MORE] - middle[ALL]) / result["more"]
    times = middle[ALL] / middle[EMPTY]
    return [
        Bound(label=f"{ALL} / {EMPTY}", values=[times], most=4.0, unit="x"),
        Bound(label=f"each of {MORE}", values=[each], most=0.35, unit=" s"),
    ]


def met(result: Result) -> bool:
    return all(bound.met for bound in bounds(result))
