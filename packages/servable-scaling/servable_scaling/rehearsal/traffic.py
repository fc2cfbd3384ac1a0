"""The requests of a day, by the minute: of a file, a shape with peak and base, or a random day.

The CloudWatch console, or a query of its logs, writes the CSV file. Rows of words come first
(Label, Period, Statistic and others), then a row for each datapoint: its time, and a value for
each metric. AWS does not document the format: words are interpreted by their meaning, wherever
they occur.
"""

import csv
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

from servable_scaling.rehearsal import ProfileName

MINUTE = timedelta(minutes=1)
# Older datapoints are kept by the hour: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/
# cloudwatch_concepts.html (2026-11-24).
LONGEST_PERIOD = timedelta(hours=1)
_FORMS = ("%m-%d-%Y %H:%M:%S", "%m-%d-%Y %H:%M", "%m-%d-%y %H:%M:%S", "%m-%d-%y %H:%M")
_UNITS = {"s": 1, "m": 60, "h": 3_600}


def parse_time(cell: str) -> datetime | None:
    """Return the time in a cell, in UTC if it names no zone; None if it isn't a time."""
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


def parse_requests(rows: Sequence[Sequence[str]]) -> dict[int, float]:
    """Return {minute from the first day's midnight in UTC: requests}. Raises ValueError with a message."""
    words = [row for row in rows if row and parse_time(row[0]) is None]
    points = [(time, row[1:]) for row in rows if row and (time := parse_time(row[0])) is not None]
    named = {row[0].strip().lower(): list(row[1:]) for row in words}
    column = _find_column(words, max(len(cells) for _, cells in points))
    statistic = _select_cell(named.get("statistic", named.get("stat", [])), column)
    if statistic and statistic.lower() not in ("sum", "samplecount", "sample count"):
        problem = f"its statistic is {statistic}; allowed: Sum of the metric Invocations per minute"
        raise ValueError(problem)
    times = sorted({time for time, _ in points})
    period = _find_period(_select_cell(named.get("period", []), column), times)
    midnight = times[0].replace(hour=0, minute=0, second=0, microsecond=0)
    requests: dict[int, float] = {}
    for time, cells in points:
        cell = _select_cell(cells, column)
        try:
            value = float(cell.replace(",", "")) if cell else 0.0
        except ValueError:
            raise ValueError(f"{cell} at {time:%Y-%m-%d %H:%M} isn't a number") from None
        begin, lasts = int((time - midnight) // MINUTE), max(1, round(period / MINUTE))
        for minute in range(begin, begin + lasts):
            requests[minute] = requests.get(minute, 0.0) + value / lasts
    if max(requests) >= MOST_MINUTES:
        raise ValueError(f"has {max(requests) // MINUTES + 1} days; allowed: at most 7")
    if any(not math.isfinite(count) or count < 0 for count in requests.values()):
        raise ValueError("has a negative number of requests; allowed: 0 or more")
    return requests


def _find_column(words: Sequence[Sequence[str]], count: int) -> int:
    """Return the position of Invocations among the values. Raises ValueError."""
    if count == 1:
        return 0
    chosen = {
        column
        for row in words
        for column, cell in enumerate(row[1:])
        if re.search(r"\bInvocations\b", cell)
    }
    if len(chosen) != 1:
        allowed = "only Invocations, or one column with that label"
        raise ValueError(f"it has {count} metrics; allowed: {allowed}")
    return chosen.pop()


def _select_cell(cells: Sequence[str], column: int) -> str:
    return cells[column].strip() if column < len(cells) else ""


def _find_period(cell: str, times: Sequence[datetime]) -> timedelta:
    """Return the stated period, or the shortest between datapoints, of a minute to an hour."""
    if stated := re.match(r"(\d+)\s*([smh]?)", cell.lower()):
        return timedelta(seconds=int(stated[1]) * _UNITS[stated[2] or "s"])
    differences = [later - earlier for earlier, later in pairwise(times)]
    return min(LONGEST_PERIOD, max(MINUTE, min(differences, default=MINUTE)))


MINUTES = 24 * 60
SECONDS = 60
MOST_MINUTES = 7 * MINUTES

# Our choices, each a shape from 0 (base) to 1 (peak) over the minutes of a day.
SPIKE_MINUTES = (720, 735)
LAUNCH_MINUTE, LAUNCH_HALVES_MINUTES = 540, 120
RAMP_MINUTES = (480, 960)
# Our choice if no base is known: a tenth of the peak.
BASE_SHARE = 0.1
# Our choices about random days: the day as a whole is larger or smaller (standard deviation of the
# logarithm), comes earlier or later (minutes at most), and each minute differs from the day's curve, less
# than adjacent minutes differ from each other over so many minutes.
DAY_SIGMA, SHIFT_MINUTES = 0.1, 30
MINUTE_SIGMA, MEMORY_MINUTES = 0.05, 10
# A minute of so many requests is never without one: e^-50.
MANY_REQUESTS = 50


class TrafficError(ValueError):
    """The error of an unreadable traffic file; `str()` names the line and what is allowed."""


PROFILES: Mapping[ProfileName, Callable[[int], float]] = {
    "spike": lambda minute: float(SPIKE_MINUTES[0] <= minute < SPIKE_MINUTES[1]),
    # Lowest at 03:00, highest at 15:00.
    "daily": lambda minute: (1 - math.cos(2 * math.pi * (minute - 180) / MINUTES)) / 2,
    "ramp": lambda minute: min(
        1.0, max(0.0, (minute - RAMP_MINUTES[0]) / (RAMP_MINUTES[1] - RAMP_MINUTES[0]))
    ),
    # The peak at 09:00, then half as much every two hours.
    "launch": lambda minute: (
        0.0 if minute < LAUNCH_MINUTE else 0.5 ** ((minute - LAUNCH_MINUTE) / LAUNCH_HALVES_MINUTES)
    ),
}


def build_profile(name: ProfileName, *, peak_rps: float, base_rps: float) -> list[float]:
    """Return the requests of each minute of a day."""
    shape = PROFILES[name]
    return [SECONDS * (base_rps + (peak_rps - base_rps) * shape(at)) for at in range(MINUTES)]


def generate_random_day(
    requests: Sequence[float], seed: int, *, quantile: float | None = None, whole: bool = False
) -> list[float]:
    """Return a random day like this one; the same seed always gives the same day.

    `quantile`: how large the day is among such days, instead of a random size. `whole`: of whole
    requests.
    """
    source = random.Random(seed)
    level = math.exp(source.gauss(0, DAY_SIGMA))
    if quantile is not None:
        level = math.exp(NormalDist(0, DAY_SIGMA).inv_cdf(quantile))
    shift = source.randint(-SHIFT_MINUTES, SHIFT_MINUTES)
    keeps, noise = math.exp(-1 / MEMORY_MINUTES), source.gauss(0, MINUTE_SIGMA)
    minutes = []
    for minute in range(len(requests)):
        minutes.append(level * math.exp(noise) * requests[(minute - shift) % len(requests)])
        noise = keeps * noise + source.gauss(0, MINUTE_SIGMA * math.sqrt(1 - keeps**2))
    return draw_whole_requests(minutes, seed) if whole else minutes


def draw_whole_requests(requests: Sequence[float], seed: int) -> list[float]:
    """Return the day in whole requests: only a whole request wakes an endpoint scaled to zero.

    Minutes with a fraction are drawn (Poisson). Minutes with many requests stay unchanged,
    because they are never without one.
    """
    source = random.Random(f"whole requests {seed}")
    day = []
    for mean in requests:
        if mean == round(mean) or mean > MANY_REQUESTS:
            day.append(mean)
            continue
        count, passed = 0, source.expovariate(mean)
        while passed < 1:
            count, passed = count + 1, passed + source.expovariate(mean)
        day.append(float(count))
    return day


def read_traffic(file: Path, shown: str = "") -> list[float]:
    """Return the requests of each minute in a file.

    The file has lines minute,requests: minutes rise from 0; those left out have no request. Or it
    is CloudWatch's own CSV. Raises TrafficError. `shown`: the file's name in messages.
    """
    name = shown or str(file)
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as wrong:
        raise TrafficError(f"cannot read {name}: {wrong.strerror}") from None
    rows = list(csv.reader(lines))
    if any(row and parse_time(row[0]) is not None for row in rows):
        try:
            return fill_minutes(parse_requests(rows))
        except ValueError as wrong:
            raise TrafficError(f"{name}: {wrong}") from None
    minutes: dict[int, float] = {}
    for number, row in enumerate(rows, 1):
        if not row or (number == 1 and row[0].strip().lower() == "minute"):
            continue
        try:
            minute, requests = int(row[0]), float(row[1])
        except (IndexError, ValueError):
            minute, requests = -1, 0.0
        if not (0 <= minute < MOST_MINUTES and math.isfinite(requests) and requests >= 0):
            raise TrafficError(
                f"{name}:{number}: {','.join(row)} isn't a minute with its requests; allowed: a minute of "
                f"0 to {MOST_MINUTES - 1}, a comma, and 0 or more requests, such as 540,61000"
            )
        if minutes and minute <= max(minutes):
            raise TrafficError(
                f"{name}:{number}: minute {minute} comes after minute {max(minutes)}; each minute "
                "must appear once, in ascending order"
            )
        minutes[minute] = requests
    if not minutes:
        raise TrafficError(f"{name}: the file is empty; write minute,requests, such as 0,1200")
    return fill_minutes(minutes)


def fill_minutes(minutes: Mapping[int, float]) -> list[float]:
    """Return the requests of every minute from 0 to the last one; missing minutes have none."""
    return [minutes.get(minute, 0.0) for minute in range(max(minutes) + 1)]
