"""The requests of a day, by the minute: from a file, or of a shape with a peak and a base."""

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import click

MINUTES = 24 * 60
SECONDS = 60

# Choices of ours, each a shape from 0 (base) to 1 (peak) over the minutes of a day.
SPIKE_MINUTES = (720, 735)
LAUNCH_MINUTE, LAUNCH_HALVES_MINUTES = 540, 120
RAMP_MINUTES = (480, 960)


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


PROFILES: Mapping[str, Callable[[int], float]] = {
    "spike": _spike,
    "daily": _daily,
    "ramp": _ramp,
    "launch": _launch,
}


def profile(name: str, *, peak_rps: float, base_rps: float) -> list[float]:
    """Requests of each minute of a day."""
    shape = PROFILES[name]
    return [SECONDS * (base_rps + (peak_rps - base_rps) * shape(one)) for one in range(MINUTES)]


def from_file(file: Path) -> list[float]:
    """minute,requests: minutes rise from 0; those left out have no request. Raises ClickException."""
    found: dict[int, float] = {}
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row or (number == 1 and row[0].strip().lower() == "minute"):
                continue
            minute, requests = _row(file, number, row)
            if found and minute <= max(found):
                raise click.ClickException(
                    f"{file}:{number}: minute {minute} comes after minute {max(found)}; each minute "
                    "stands once, in rising order"
                )
            found[minute] = requests
    if not found:
        raise click.ClickException(f"{file}: has no line; write minute,requests, such as 0,1200")
    return [found.get(minute, 0.0) for minute in range(max(found) + 1)]


def _row(file: Path, number: int, row: list[str]) -> tuple[int, float]:
    try:
        minute, requests = int(row[0]), float(row[1])
    except (IndexError, ValueError):
        minute, requests = -1, 0.0
    if not (0 <= minute < 7 * MINUTES and math.isfinite(requests) and requests >= 0):
        raise click.ClickException(
            f"{file}:{number}: {','.join(row)} is no minute with its requests; allowed: a minute of 0 to "
            f"{7 * MINUTES - 1}, a comma, and 0 or more requests, such as 540,61000"
        )
    return minute, requests
