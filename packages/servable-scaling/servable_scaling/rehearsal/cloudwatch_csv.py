"""Requests by the minute from a CSV file that the CloudWatch console, or a query of its logs, has written.

Rows of words come first (Label, Period, Statistic and others), then a row for each datapoint: its time, and a
value for each metric. AWS does not document the form: words are taken by their meaning, wherever they stand.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

MINUTE = timedelta(minutes=1)
# Older datapoints are kept by the hour: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/
# cloudwatch_concepts.html (2026-11-24).
LONGEST_PERIOD = timedelta(hours=1)
_FORMS = ("%m-%d-%Y %H:%M:%S", "%m-%d-%Y %H:%M", "%m-%d-%y %H:%M:%S", "%m-%d-%y %H:%M")
_UNITS = {"s": 1, "m": 60, "h": 3_600}


def time_of(cell: str) -> datetime | None:
    """The time that a cell says, in UTC where it names no zone; None if it is no time."""
    text = cell.strip().replace("/", "-")
    if re.fullmatch(r"\d{13}", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    if ":" not in text or "-" not in text:
        return None
    for form in (None, *_FORMS):
        try:
            time = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        except ValueError:
            continue
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return None


def requests_of(rows: Sequence[Sequence[str]]) -> dict[int, float]:
    """{minute from the first day's midnight in UTC: requests}. Raises ValueError in words."""
    words = [row for row in rows if row and time_of(row[0]) is None]
    points = [(time, row[1:]) for row in rows if row and (time := time_of(row[0])) is not None]
    named = {row[0].strip().lower(): list(row[1:]) for row in words}
    column = _column(words, max(len(cells) for _, cells in points))
    statistic = _cell(named.get("statistic", named.get("stat", [])), column)
    if statistic and statistic.lower() not in ("sum", "samplecount", "sample count"):
        raise ValueError(
            f"its statistic is {statistic}; allowed: Sum, of the metric Invocations by the minute"
        )
    times = sorted({time for time, _ in points})
    period = _period(_cell(named.get("period", []), column), times)
    midnight = times[0].replace(hour=0, minute=0, second=0, microsecond=0)
    requests: dict[int, float] = {}
    for time, cells in points:
        cell = _cell(cells, column)
        try:
            value = float(cell.replace(",", "")) if cell else 0.0
        except ValueError:
            raise ValueError(f"{cell} at {time:%Y-%m-%d %H:%M} is no number") from None
        begin, lasts = int((time - midnight) // MINUTE), max(1, round(period / MINUTE))
        for minute in range(begin, begin + lasts):
            requests[minute] = requests.get(minute, 0.0) + value / lasts
    return requests


def _column(words: Sequence[Sequence[str]], count: int) -> int:
    """The position of Invocations among the values. Raises ValueError."""
    if count == 1:
        return 0
    exact = {
        column
        for row in words
        for column, cell in enumerate(row[1:])
        if re.search(r"\bInvocations\b", cell)
    }
    filled = {column for row in words for column, cell in enumerate(row[1:]) if cell.strip()}
    chosen = exact or filled
    if len(chosen) != 1:
        raise ValueError(
            f"it has {count} metrics; allowed: one, Invocations, or a column with that label"
        )
    return chosen.pop()


def _cell(cells: Sequence[str], column: int) -> str:
    """The column's cell; where there is one word for all columns, that."""
    alone = [cell.strip() for cell in cells if cell.strip()]
    if column < len(cells) and cells[column].strip():
        return cells[column].strip()
    return alone[0] if len(alone) == 1 and len(cells) == 1 else ""


def _period(cell: str, times: Sequence[datetime]) -> timedelta:
    """As the file says it, else the least difference between two datapoints. Raises ValueError."""
    if stated := re.match(r"(\d+)\s*([smh]?)", cell.lower()):
        return timedelta(seconds=int(stated[1]) * _UNITS[stated[2] or "s"])
    differences = [later - earlier for earlier, later in pairwise(times)]
    return min(LONGEST_PERIOD, max(MINUTE, min(differences, default=MINUTE)))
