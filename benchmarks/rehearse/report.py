"""The rehearsals' part of docs/performance.md, from what `make bench-rehearse` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, at_most, ran_on, read
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is wanted. Source: the requirements of this project.
MOST_DAY_SECONDS, MOST_MANY_SECONDS = 2.0, 120.0


def section() -> str:
    result = read(RESULT)
    return page_section("Rehearsed days", "rehearse", _how(result), _bounds(result))


def met() -> bool:
    """Both bounds, by the last measurement."""
    result = read(RESULT)
    return bool(
        median(result["day_seconds"]) <= MOST_DAY_SECONDS
        and result["many_seconds"] <= MOST_MANY_SECONDS
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
