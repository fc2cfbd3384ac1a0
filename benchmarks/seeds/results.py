"""result.json: what was measured, each experiment with its run, time and computer; and its rows.

Rows are chosen and reduced here, the same for tables, claims and pictures.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report

RESULT = Path(__file__).parent / "result.json"
Result = dict[str, Any]
Row = dict[str, Any]


def read() -> Result:
    """Experiment -> an object with the keys `run`, `model_server`, `machine`, `seconds`, `found`."""
    return report.read(RESULT) if RESULT.exists() else {}


def clear() -> None:
    report.write(RESULT, {})


def keep(name: str, measured: dict[str, Any]) -> Result:
    """Beside what is there; returns all of it, as it will be read."""
    report.write(RESULT, read() | {name: measured})
    return read()


def values(rows: Sequence[Row], what: str, /, **wanted: Any) -> list[float]:
    """In the order of the repeats. Raises LookupError where there are none."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if not found:
        raise LookupError(f"no row with {wanted}")
    return [row[what] for row in sorted(found, key=lambda row: row["repeat"])]


def middle(rows: Sequence[Row], what: str, /, **wanted: Any) -> float:
    return median(values(rows, what, **wanted))


def spread(rows: Sequence[Row], what: str, /, **wanted: Any) -> str:
    """Median, and the smallest and largest of the repeats."""
    return spread_of(values(rows, what, **wanted))


def spread_of(found: Sequence[float]) -> str:
    return f"{short(median(found))} ({short(min(found))} to {short(max(found))})"


def short(number: float) -> str:
    """Three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


Settings = tuple[int, int, int, int, int]
"""Gunicorn workers, model servers, OpenMP, inter-op and intra-op threads."""

# S2's table of its retrieval model on ml.c5.9xlarge, 36 cores: -> transactions/s
ARTICLE: dict[Settings, float] = {
    (1, 1, 36, 36, 36): 15.87,
    (36, 1, 1, 36, 36): 164.0,
    (1, 1, 1, 1, 1): 33.0834,
    (36, 1, 1, 1, 1): 67.5118,
    (36, 8, 1, 1, 1): 319.078,
}
FIRST, POOLS, ONES, WORKERS, SERVERS = ARTICLE
