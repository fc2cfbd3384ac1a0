"""What a run wrote down, chosen and reduced: the same for tables, claims and pictures."""

from collections.abc import Sequence
from statistics import median
from typing import Any

Row = dict[str, Any]


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
    found = values(rows, what, **wanted)
    return f"{short(median(found))} ({short(min(found))} to {short(max(found))})"


def short(number: float) -> str:
    """Three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
