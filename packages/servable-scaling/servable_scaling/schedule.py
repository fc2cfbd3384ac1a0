"""Parser of the expressions of scheduled actions, at(…), rate(…) and cron(…), and when they run.

Source:
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html (2026-11-22),
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html (2026-11-22)
"""

import calendar
import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_MONTHS = tuple(name.upper() for name in calendar.month_abbr[1:])
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WEEKDAY_ALONE = f"([1-7]|{'|'.join(_WEEKDAYS)})"
# Name, least, most, the words for its values, and what else it may be as a whole.
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
_UNIT_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400}


class ScheduleError(ValueError):
    """The error of an expression that Application Auto Scaling rejects. `allowed` says what it accepts."""

    def __init__(self, problem: str, allowed: str) -> None:
        super().__init__(problem)
        self.allowed = allowed


def compute_last_run(expression: str) -> datetime | None:
    """Return the last run, in the expression's time zone; None if none is. Raises `ScheduleError`."""
    parsed = _parse_expression(expression)
    if isinstance(parsed, datetime):
        return parsed
    if isinstance(parsed, int) or parsed.every_year:
        return None
    return datetime(max(parsed.years), 12, 31, 23, 59, 59)


def parse_interval_seconds(expression: str) -> int | None:
    """Return the seconds between two runs of a rate, otherwise None. Raises `ScheduleError`."""
    parsed = _parse_expression(expression)
    return parsed if isinstance(parsed, int) else None


def has_common_minute(first: str, second: str) -> bool:
    """Return whether two expressions, no rates, run in a common minute. Raises `ScheduleError`."""
    both = [_parse_expression(expression) for expression in (first, second)]
    moments = [each.replace(second=0) for each in both if isinstance(each, datetime)]
    crons = [each for each in both if isinstance(each, _Cron)]
    if len(moments) == 2:
        return moments[0] == moments[1]
    if moments and crons:
        return crons[0].is_match(moments[0])
    if len(crons) < 2 or not (crons[0].times & crons[1].times):
        return False
    hour, minute = min(crons[0].times & crons[1].times)
    begin = datetime(max(_LEAP_YEAR, *(min(cron.years) for cron in crons)), 1, 1, hour, minute)
    days = (begin + timedelta(days=day) for day in range(366))
    return any(crons[0].is_match(day) and crons[1].is_match(day) for day in days)


class ActionSchedule:
    """The schedule of an expression, by the minute. Times are naive UTC; raises `ScheduleError`.

    `start` and `end` bound cron and rate, and are UTC in any time zone; it also runs at `start`.
    Source (2026-11-22):
    https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-policy-overview.html
    """

    def __init__(
        self,
        expression: str,
        *,
        time_zone: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        created: datetime,
    ) -> None:
        parsed = _parse_expression(expression)
        self._zone = None if time_zone in (None, "UTC", "Etc/UTC") else ZoneInfo(str(time_zone))
        self._start, self._end = start, end
        self._runs: Callable[[datetime], bool]
        if isinstance(parsed, int):
            seconds = parsed
            # Chosen: the intervals of rate(…) begin at StartTime; without one, when it was created.
            since, self._zone = (start or created).replace(second=0, microsecond=0), None
            self._runs = lambda at: at > since and not (at - since).total_seconds() % seconds
        elif isinstance(parsed, datetime):
            moment = parsed.replace(second=0)
            self._runs = lambda local: local == moment
        else:
            self._runs = parsed.is_match

    def is_due(self, minute: datetime) -> bool:
        """Return whether it runs in the minute that begins at `minute`."""
        if self._start is not None:
            start = self._start.replace(second=0, microsecond=0)
            if minute <= start:
                return minute == start
        if self._end is not None and minute > self._end:
            return False
        if self._zone is None:
            return self._runs(minute)
        local = minute.replace(tzinfo=UTC).astimezone(self._zone)
        # Chosen: a local time that the change to winter time brings twice runs once; one that the
        # change to summer time leaves out does not run.
        return not local.fold and self._runs(local.replace(tzinfo=None))


def _parse_expression(expression: str) -> "int | datetime | _Cron":
    """Return the seconds of a rate, the moment of at(…), or the fields of cron(…)."""
    kind, _, rest = expression.rstrip(")").partition("(")
    if kind == "at":
        return _parse_at(rest)
    return _Cron(rest) if kind == "cron" else _parse_rate(rest)


def _parse_rate(rest: str) -> int:
    parts = re.fullmatch(r"0*([1-9][0-9]*) (minute|hour|day)(s?)", rest)
    if parts is None:
        allowed = "rate(N UNIT): a whole number from 1 up, and minutes, hours or days"
        raise ScheduleError(f"{rest!r} isn't a valid interval", allowed)
    value, unit, plural = int(parts[1]), parts[2], parts[3]
    # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html (2026-11-24)
    if (value == 1) == bool(plural):
        problem = f"the unit must be singular after 1, and plural after larger numbers: {rest!r}"
        raise ScheduleError(problem, f"rate({value} {unit}{'' if value == 1 else 's'})")
    return value * _UNIT_SECONDS[unit]


def _parse_at(moment: str) -> datetime:
    try:
        if re.fullmatch(r"[0-9-]{10}T[0-9:]{8}", moment):
            return datetime.fromisoformat(moment)
    except ValueError:
        pass  # as 30 February
    allowed = "at(yyyy-mm-ddThh:mm:ss), for example at(2026-12-24T18:00:00)"
    raise ScheduleError(f"{moment!r} isn't a valid time", allowed)


class _Cron:
    """The six fields of a cron expression: their values, and whether a local time matches."""

    def __init__(self, fields: str) -> None:
        texts = fields.upper().split()
        if len(texts) != len(_FIELDS):
            raise ScheduleError(
                f"cron has six fields, but {fields!r} has {len(texts)}",
                "minute, hour, day of month, month, day of week, year: for example cron(0 7 ? * MON-FRI *)",
            )
        values = [_parse_values(text, *field) for text, field in zip(texts, _FIELDS, strict=True)]
        self._day, self._weekday = texts[_DAY], texts[_WEEKDAY]
        if (self._day == "?") == (self._weekday == "?"):
            raise ScheduleError(
                f"day of the month is {self._day} and day of the week {self._weekday}, but exactly one of "
                "them must be ?",
                "? in one of them, for example cron(0 7 * * ? *) or cron(0 7 ? * MON *)",
            )
        self._minutes, self._hours, self._days, self._months, self._weekdays, self.years = values
        self.every_year = texts[_YEAR] == "*"
        longest = max(calendar.monthrange(_LEAP_YEAR, month)[1] for month in self._months)
        if self._days and min(self._days) > longest:
            raise ScheduleError(f"month {texts[_MONTH]} has no day {self._day}", f"1 to {longest}")

    @property
    def times(self) -> set[tuple[int, int]]:
        """Return the times of day, as pairs (hour, minute)."""
        return set(itertools.product(self._hours, self._minutes))

    def is_match(self, local: datetime) -> bool:
        return (
            local.minute in self._minutes
            and local.hour in self._hours
            and local.month in self._months
            and local.year in self.years
            and (self._is_day(local) if self._weekday == "?" else self._is_weekday(local))
        )

    def _is_day(self, local: datetime) -> bool:
        if self._days:
            return local.day in self._days
        last = calendar.monthrange(local.year, local.month)[1]
        if self._day == "LW":
            return local.day == _find_nearest_weekday(local, last)
        if self._day.endswith("W"):
            return local.day == _find_nearest_weekday(local, min(int(self._day[:-1]), last))
        return local.day == last - int(self._day[2:] or 0)

    def _is_weekday(self, local: datetime) -> bool:
        today = local.isoweekday() % 7 + 1  # 1 is Sunday
        if self._weekdays:
            return today in self._weekdays
        if self._weekday == "L":
            return today == 7
        name, number = re.split("L|#", self._weekday)
        weekday = _WEEKDAYS.index(name) + 1 if name in _WEEKDAYS else int(name)
        if number:
            return today == weekday and (local.day + 6) // 7 == int(number)
        return today == weekday and local.day + 7 > calendar.monthrange(local.year, local.month)[1]


def _find_nearest_weekday(local: datetime, day: int) -> int:
    """Return the day from Monday to Friday that is nearest to `day`, within the month."""
    last = calendar.monthrange(local.year, local.month)[1]
    weekday = local.replace(day=day).isoweekday()
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 7:
        return day + 1 if day < last else day - 2
    return day


def _parse_values(
    field: str, name: str, least: int, most: int, words: tuple[str, ...], whole: str
) -> set[int]:
    """Return every number of a field; none for a field that depends on the calendar (? L W #)."""
    allowed = f"{least} to {most}" + (f" or {words[0]} to {words[-1]}" if words else "")
    if whole and re.fullmatch(whole, field):
        return set()
    numbers: set[int] = set()
    for part in field.split(","):
        parts = re.fullmatch(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", part)
        if parts is None or (parts[3] is not None and int(parts[3]) == 0):
            raise ScheduleError(f"{part!r} isn't a valid {name}", f"{allowed}, with , - * /")
        stated = [end for end in parts.groups()[:2] if end]
        ends = [words.index(end) + least if end in words else end for end in stated]
        if not all(str(end).isdecimal() and least <= int(end) <= most for end in ends):
            raise ScheduleError(f"{name} {part} is out of range", allowed)
        first = int(ends[0]) if ends else least
        last = int(ends[-1]) if len(ends) == 2 or (ends and not parts[3]) else most
        span = last - first if last >= first else last - first + most - least + 1  # FRI-MON
        step = int(parts[3] or 1)
        numbers |= {
            least + (first + by - least) % (most - least + 1) for by in range(0, span + 1, step)
        }
    return numbers
