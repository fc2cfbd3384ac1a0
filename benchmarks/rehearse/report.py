"""The rehearsals' part of docs/performance.md, from what `make bench-rehearse` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, at_most, ran_on, read, row
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is wanted. Source: the requirements of this project.
MOST_DAY_SECONDS, MOST_MANY_SECONDS, MOST_ERROR = 2.0, 120.0, 0.15


def section() -> str:
    result = read(RESULT)
    beside = [_beside(result["container"])] if "container" in result else []
    return page_section("Rehearsed days", "rehearse", _how(result), _bounds(result), *beside)


def met() -> bool:
    """All bounds, by the last measurement."""
    result = read(RESULT)
    return bool(
        median(result["day_seconds"]) <= MOST_DAY_SECONDS
        and result["many_seconds"] <= MOST_MANY_SECONDS
        and _error(result["container"]) <= MOST_ERROR
    )


def _how(result: dict[str, Any]) -> list[str]:
    return [
        "A day of 1,440 minutes, one tracking policy and four alarms; nothing computed before is kept.",
        "",
        ran_on(result["machine"]),
    ]


def _bounds(result: dict[str, Any]) -> list[str]:
    most = result["most_instances"]
    return [
        *WITH_SPREAD,
        at_most(
            f"a day, up to {most} instances", result["day_seconds"], MOST_DAY_SECONDS, unit=" s"
        ),
        at_most(
            "50 policies over 20 random days, two cores",
            [result["many_seconds"]],
            MOST_MANY_SECONDS,
            form=".0f",
            unit=" s",
        ),
    ]


def _error(container: dict[str, Any]) -> float:
    """The worst of the loads: how far the computed mean is from the measured one, as a share of it."""
    pairs = [(one["computed"]["mean_ms"], one["measured"]["mean_ms"]) for one in container["loads"]]
    return float(max(abs(computed - measured) / measured for computed, measured in pairs))


def _beside(container: dict[str, Any]) -> list[str]:
    """The computed queue beside the local container's."""
    rows = [
        "One instance beside the local container, four workers whose handler waits for a random time; rate "
        f"and latencies of one caller as measured: {container['rate_rps']:.0f} requests/s, p50 "
        f"{container['p50_ms']:.1f} ms, p99 {container['p99_ms']:.1f} ms. The mean is wanted within 15 %: "
        f"{'met' if _error(container) <= MOST_ERROR else '**not met**'}.",
        "",
        "| of the highest rate | mean | computed | p50 | computed | p99 | computed |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in container["loads"]:
        sides = [
            f"{one[side][name]:.1f} ms"
            for name in ("mean_ms", "p50_ms", "p99_ms")
            for side in ("measured", "computed")
        ]
        rows.append(row(f"{one['share']:.0%}", *sides))
    return rows
