"""The requests of a day, by the minute: of a file, a shape with peak and base, or a random day."""

import csv
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import get_args

from servable_scaling.rehearsal import ProfileName
from servable_scaling.rehearsal.cloudwatch_csv import requests_of, time_of

MINUTES = 24 * 60
SECONDS = 60
MOST_MINUTES = 7 * MINUTES

# Choices of ours, each a shape from 0 (base) to 1 (peak) over the minutes of a day.
SPIKE_MINUTES = (720, 735)
LAUNCH_MINUTE, LAUNCH_HALVES_MINUTES = 540, 120
RAMP_MINUTES = (480, 960)
# A choice of ours, where no base is known: a tenth of the peak.
BASE_SHARE = 0.1
# Choices of ours about random days: the day as a whole is larger or smaller (standard deviation of the
# logarithm), comes earlier or later (minutes at most), and each minute differs from the day's curve, less
# than the minutes beside it differ from each other over so many minutes.
DAY_SIGMA, SHIFT_MINUTES = 0.1, 30
MINUTE_SIGMA, MEMORY_MINUTES = 0.05, 10
# A minute of so many requests is never without one: e^-50.
MANY_REQUESTS = 50


class TrafficError(ValueError):
    """A file of traffic cannot be read; `str()` names the line and what is allowed."""


def _spike(minute: int) -> float:
    return 1.0 if SPIKE_MINUTES[0] <= minute < SPIKE_MINUTES[1] else 0.0


def _daily(minute: int) -> float:
    """Lowest at 03:00, highest at 15:00."""
    return (1 - math.cos(2 * math.pi * (minute - 180) / MINUTES)) / 2


def _ramp(minute: int) -> float:
    begin, end = RAMP_MINUTES
    return min(1.0, max(0.0, (minute - begin) / (end - begin)))


def _launch(minute: int) -> float:
    """All at once at 09:00; then half of it is gone every two hours."""
    return (
        0.0 if minute < LAUNCH_MINUTE else 0.5 ** ((minute - LAUNCH_MINUTE) / LAUNCH_HALVES_MINUTES)
    )


PROFILES: Mapping[str, Callable[[int], float]] = dict(
    zip(get_args(ProfileName), (_spike, _daily, _ramp, _launch), strict=True)
)


def profile(name: str, *, peak_rps: float, base_rps: float) -> list[float]:
    """Requests of each minute of a day."""
    shape = PROFILES[name]
    return [SECONDS * (base_rps + (peak_rps - base_rps) * shape(at)) for at in range(MINUTES)]


def random_day(
    requests: Sequence[float], seed: int, *, quantile: float | None = None, whole: bool = False
) -> list[float]:
    """A day like this one; the same for the same seed, whatever is compared on it.

    `quantile`: how large the day is among such days, instead of a random size. `whole`: of whole requests.
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
    return whole_requests(minutes, seed) if whole else minutes


def whole_requests(requests: Sequence[float], seed: int) -> list[float]:
    """The day in whole requests: what sleeps through a quiet minute is woken by one, and not by a tenth.

    Minutes with a fraction are drawn (Poisson); of many requests none is missed, so that they stay.
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


def from_file(file: Path, shown: str = "") -> list[float]:
    """minute,requests: minutes rise from 0; those left out have no request. Or CloudWatch's own CSV.

    Raises TrafficError. `shown`: the file's name in messages.
    """
    name = shown or str(file)
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as wrong:
        raise TrafficError(f"{name}: cannot be read: {wrong.strerror}") from None
    rows = list(csv.reader(lines))
    if any(row and time_of(row[0]) is not None for row in rows):
        return _from_cloudwatch(rows, name)
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
                f"{name}:{number}: {','.join(row)} is no minute with its requests; allowed: a minute of "
                f"0 to {MOST_MINUTES - 1}, a comma, and 0 or more requests, such as 540,61000"
            )
        if minutes and minute <= max(minutes):
            raise TrafficError(
                f"{name}:{number}: minute {minute} comes after minute {max(minutes)}; each minute "
                "stands once, in rising order"
            )
        minutes[minute] = requests
    if not minutes:
        raise TrafficError(f"{name}: has no line; write minute,requests, such as 0,1200")
    return filled(minutes)


def _from_cloudwatch(rows: Sequence[Sequence[str]], name: str) -> list[float]:
    try:
        counts = requests_of(rows)
    except ValueError as wrong:
        raise TrafficError(f"{name}: {wrong}") from None
    if max(counts) >= MOST_MINUTES:
        raise TrafficError(f"{name}: has {max(counts) // MINUTES + 1} days; allowed: at most 7")
    if any(not math.isfinite(count) or count < 0 for count in counts.values()):
        raise TrafficError(f"{name}: has a negative number of requests; allowed: 0 or more")
    return filled(counts)


def filled(minutes: Mapping[int, float]) -> list[float]:
    """Every minute from 0 to the last one; those that are not there have no request."""
    return [minutes.get(minute, 0.0) for minute in range(max(minutes) + 1)]
