"""Parses the expressions of scheduled actions: at(…), rate(…) and cron(…).

Source:
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html (2026-11-22),
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html (2026-11-22)
"""

import calendar
import re
from datetime import datetime

_MONTHS = tuple(name.upper() for name in calendar.month_abbr[1:])
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WEEKDAY_ALONE = f"([1-7]|{'|'.join(_WEEKDAYS)})"
# Name, least and most value, words for values, and a pattern of other values of the whole field.
_FIELDS = (
    ("minute", 0, 59, (), ""),
    ("hour", 0, 23, (), ""),
    ("day of the month", 1, 31, (), r"\?|L(-\d{1,2})?|LW|([1-9]|[12]\d|3[01])W"),
    ("month", 1, 12, _MONTHS, ""),
    ("day of the week", 1, 7, _WEEKDAYS, rf"\?|L|{_WEEKDAY_ALONE}(L|#[1-5])"),
    ("year", 1970, 2199, (), ""),
)
_DAY, _MONTH, _WEEKDAY, _YEAR = 2, 3, 4, 5
_LEAP_YEAR = 2000


class ScheduleError(ValueError):
    """Application Auto Scaling would refuse the expression; `allowed` says what it accepts."""

    def __init__(self, problem: str, allowed: str) -> None:
        super().__init__(problem)
        self.allowed = allowed


def last_run(expression: str) -> datetime | None:
    """The last time at which the expression runs, in its own time zone; None if it never ends.

    Raises `ScheduleError`.
    """
    kind, _, rest = expression.rstrip(")").partition("(")
    if kind == "at":
        return _at(rest)
    if kind == "cron":
        return _cron(rest)
    if not re.fullmatch(r"0*[1-9][0-9]* (minute|hour|day)s?", rest):
        allowed = "rate(N UNIT): a whole number from 1 up, and minutes, hours or days"
        raise ScheduleError(f"{rest!r} is not an interval", allowed)
    return None


def _at(moment: str) -> datetime:
    try:
        if re.fullmatch(r"[0-9-]{10}T[0-9:]{8}", moment):
            return datetime.fromisoformat(moment)
    except ValueError:
        pass  # for example 30 February
    allowed = "at(yyyy-mm-ddThh:mm:ss), for example at(2026-12-24T18:00:00)"
    raise ScheduleError(f"{moment!r} is not a point in time", allowed)


def _cron(fields: str) -> datetime | None:
    given = fields.upper().split()
    if len(given) != len(_FIELDS):
        raise ScheduleError(
            f"cron has six fields, but {fields!r} has {len(given)}",
            "minute, hour, day of month, month, day of week, year: for example cron(0 7 ? * MON-FRI *)",
        )
    values = [_values(field, *known) for field, known in zip(given, _FIELDS, strict=True)]
    if (given[_DAY] == "?") == (given[_WEEKDAY] == "?"):
        raise ScheduleError(
            f"day of the month is {given[_DAY]} and day of the week {given[_WEEKDAY]}, but exactly one of "
            "them must be ?",
            "? in one of them, for example cron(0 7 * * ? *) or cron(0 7 ? * MON *)",
        )
    days, months, years = values[_DAY], values[_MONTH], values[_YEAR]
    longest = max(calendar.monthrange(_LEAP_YEAR, one)[1] for one in months)
    if days and min(days) > longest:
        raise ScheduleError(f"month {given[_MONTH]} has no day {given[_DAY]}", f"1 to {longest}")
    return None if given[_YEAR] == "*" else datetime(max(years), 12, 31, 23, 59, 59)


def _values(
    field: str, name: str, least: int, most: int, words: tuple[str, ...], whole: str
) -> set[int]:
    """Every number that a field means; none if it depends on the calendar (? L W #)."""
    allowed = f"{least} to {most}" + (f" or {words[0]} to {words[-1]}" if words else "")
    if whole and re.fullmatch(whole, field):
        return set()
    found: set[int] = set()
    for part in field.split(","):
        parts = re.fullmatch(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", part)
        if parts is None or (parts[3] is not None and int(parts[3]) == 0):
            raise ScheduleError(f"{part!r} is not a valid {name}", f"{allowed}, with , - * /")
        ends = [
            words.index(one) + least if one in words else one for one in parts.groups()[:2] if one
        ]
        if not all(str(one).isdecimal() and least <= int(one) <= most for one in ends):
            raise ScheduleError(f"{name} {part} is out of range", allowed)
        first = int(ends[0]) if ends else least
        last = int(ends[-1]) if len(ends) == 2 or (ends and not parts[3]) else most
        span = last - first if last >= first else last - first + most - least + 1  # FRI-MON
        step = int(parts[3] or 1)
        found |= {
            least + (first + by - least) % (most - least + 1) for by in range(0, span + 1, step)
        }
    return found
