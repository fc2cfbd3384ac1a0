"""The replay's part of docs/performance.md, from what `make bench-replay` measured last."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, at_most, ran_on, read
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is wanted. Source: the requirements of this project.
MOST_MEMORY_MB, MOST_P50_MS, MOST_P99_MS = 300.0, 2.0, 20.0


def section() -> str:
    result = read(RESULT)
    table = [*WITH_SPREAD, *(at_most(**bound) for bound in _bounds(result))]
    return page_section("Captured requests replayed", "replay", _how(result), table, _rate(result))


def met() -> bool:
    """All bounds, by the last measurement, without a request that failed."""
    result = read(RESULT)
    failed = sum(one["failed"] for one in (*result["fast"], *result["paced"]))
    return not failed and all(median(bound["found"]) <= bound["most"] for bound in _bounds(result))


def _bounds(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of at_most for each bound."""
    yield {
        "label": f"memory of all processes, {result['requests']:,} requests",
        "found": [one["memory_mb"] for one in result["fast"]],
        "most": MOST_MEMORY_MB,
        "form": ".0f",
        "unit": " MB",
    }
    for name, most in (("p50", MOST_P50_MS), ("p99", MOST_P99_MS)):
        yield {
            "label": f"sent late at {result['rate_rps']:g} requests/s, {name}",
            "found": [one["send_lag_ms"][name] for one in result["paced"]],
            "most": most,
            "unit": " ms",
        }


def _how(result: dict[str, Any]) -> list[str]:
    return [
        f"Captured requests of {result['body_bytes']:,} bytes in files of two variants, sent to a server",
        "that does nothing; every answer is compared and kept. At the captured pace a request is late by the",
        "time from the moment at which it was due to the moment at which it was sent.",
        "",
        ran_on(result["machine"]),
    ]


def _rate(result: dict[str, Any]) -> list[str]:
    rates = [one["answered"] / one["seconds"] for one in result["fast"]]
    return [
        f"As fast as it is answered: {median(rates):,.0f} requests/s (from {min(rates):,.0f} to",
        f"{max(rates):,.0f}), from the start of the command to its end: reading everything twice included.",
    ]
