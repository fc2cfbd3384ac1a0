"""The result of a job: rows in and out, failed requests by kind, time and cost; as a table and as JSON."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from infra.catalog.prices import Price
from servable.console.lines import duration

SHOWN_FAILURES = 3
# What the service writes before the container's own words; docs/local.md has the sources.
_LOG_LINE = re.compile(r"\[sagemaker logs\]: (?P<place>\S+?/\S+?): ?(?P<text>.*)")
MESSAGE = "Message:"


@dataclass(frozen=True, kw_only=True)
class FailedRequest:
    """A request of one record or more that was refused, or that nothing answered."""

    place: str
    """The object or file, and the row if it is known."""
    kind: str
    """As ClientError: 400."""
    message: str
    """The words of the container."""


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """A job that has ended. Times in seconds; None stands for what is not known."""

    job: str
    status: str
    reason: str | None = None
    where: str
    """What ran it: aws, local AWS or local container."""
    instance_type: str | None = None
    instances: int = 1
    objects_in: int
    objects_out: int
    bytes_in: int
    rows_in: int | None
    rows_out: int | None
    not_counted: str | None = None
    """Why rows_in or rows_out is None."""
    failed: tuple[FailedRequest, ...] = field(default=())
    seconds: float | None
    seconds_with_start: float | None = None
    usd: float | None = None
    price: str = ""
    """What the cost was computed from, or why there is none."""
    output: str
    interrupted: bool = False

    @property
    def holds(self) -> bool:
        """Whether every record that was counted has its answer."""
        rows = self.not_counted is not None or self.rows_in == self.rows_out
        return self.status == "Completed" and self.objects_in == self.objects_out and rows

    def as_object(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}

    def lines(self) -> Iterator[str]:
        """The table of the end."""
        yield f"{self.job}: {self.status}" + (f": {self.reason}" if self.reason else "")
        for label, rows, objects in (
            ("rows in", self.rows_in, self.objects_in),
            ("rows out", self.rows_out, self.objects_out),
        ):
            number = "not counted" if rows is None else f"{rows:,}"
            yield f"{label:10}{number:>14}   in {counted(objects, 'object')}"
        if self.not_counted:
            yield f"{'':27}{self.not_counted}"
        yield f"{'failed':10}{len(self.failed):14,}"
        yield from self._kinds()
        if self.failed and self.instance_type is not None:
            yield f"{'':27}download the file and run it with --local --input FILE: that names the rows"
        if self.seconds is not None:
            whole = self.seconds_with_start
            start = "" if whole is None else f"   {duration(whole)} from the request on"
            yield f"{'time':10}{duration(self.seconds):>14}{start}"
        cost = "not known" if self.usd is None else f"${self.usd:,.4f}"
        yield f"{'cost':10}{cost:>14}   {self.price}".rstrip()
        yield f"{'results':10}{'':3}{self.output}"
        if self.status == "Completed" and not self.holds:
            yield (
                "The rows that came out are not those that went in: an empty line has no answer, and code "
                "may answer several lines as one"
            )

    def _kinds(self) -> Iterator[str]:
        kinds: dict[tuple[str, str], list[str]] = {}
        for failed in self.failed:
            kinds.setdefault((failed.kind, failed.message), []).append(failed.place)
        for (kind, message), places in sorted(kinds.items(), key=lambda item: -len(item[1])):
            more = len(places) - SHOWN_FAILURES
            named = ", ".join(places[:SHOWN_FAILURES]) + (f" and {more:,} more" if more > 0 else "")
            yield f"{len(places):24,}   {kind}{f': {message}' if message else ''}"
            yield f"{'':27}{named}"


def failures_in(messages: Iterable[str]) -> tuple[FailedRequest, ...]:
    """Read the failed requests of a job's log: for each object its kind, and the container's words."""
    lines: dict[str, list[str]] = {}
    for message in messages:
        if found := _LOG_LINE.search(message):
            lines.setdefault(found["place"], []).append(found["text"])
    return tuple(_failure(place, texts) for place, texts in lines.items())


def _failure(place: str, texts: list[str]) -> FailedRequest:
    words = texts.index(MESSAGE) + 1 if MESSAGE in texts else len(texts)
    return failed_request(place, texts[0], " ".join(filter(None, texts[words:])))


def failed_request(place: str, kind: str, message: str) -> FailedRequest:
    """`message`: the container's answer, of which an error of its JSON is taken out."""
    try:
        message = str(json.loads(message)["error"])
    except (ValueError, TypeError, LookupError):
        pass  # as it is: another container, or cut short
    return FailedRequest(place=place, kind=kind, message=message)


def priced(seconds: float, instances: int, price: Price) -> tuple[float, str]:
    """Return (cost in US dollars, what it was computed from)."""
    each = f"{instances:,} x {price.instance} at ${price.usd_per_hour:g} an hour ({price.region})"
    return seconds / 3600 * instances * price.usd_per_hour, each


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
