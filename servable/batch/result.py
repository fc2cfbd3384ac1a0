"""The result of a job as a table and as JSON, and its time and cost beforehand, from measured rates."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infra.catalog.prices import Price
from infra.parameters.batch.job import BatchJob
from infra.parameters.environment import Environment
from infra.preflight.rendering import format_count
from model_packaging.beside import create_private_folder, write_atomically
from servable.console.lines import format_duration

SHOWN_FAILURES = 3
# What the service writes before the container's message; docs/local.md has the sources.
_LOG_LINE = re.compile(r"\[sagemaker logs\]: (?P<place>\S+?/\S+?): ?(?P<text>.*)")
MESSAGE = "Message:"


@dataclass(frozen=True, kw_only=True)
class FailedRequest:
    """A request of one or more records that was rejected or got no response."""

    place: str
    """The object or file, and the row if it is known."""
    kind: str
    """As ClientError: 400."""
    message: str
    """The container's message."""


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The result of a job that has ended. Times are in seconds; None stands for unknown values."""

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
    def is_complete(self) -> bool:
        """Return whether every counted record has its response."""
        rows = self.not_counted is not None or self.rows_in == self.rows_out
        return self.status == "Completed" and self.objects_in == self.objects_out and rows

    def as_object(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.is_complete}

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of the table that is shown at the end."""
        yield f"{self.job}: {self.status}" + (f": {self.reason}" if self.reason else "")
        for label, rows, objects in (
            ("rows in", self.rows_in, self.objects_in),
            ("rows out", self.rows_out, self.objects_out),
        ):
            number = "not counted" if rows is None else f"{rows:,}"
            yield _format_row(label, number, f"in {format_count(objects, 'object')}")
        if self.not_counted:
            yield _format_row("", "", self.not_counted)
        yield _format_row("failed", f"{len(self.failed):,}")
        kinds: dict[str, list[str]] = {}
        for failed in self.failed:
            said = f"{failed.kind}{f': {failed.message}' if failed.message else ''}"
            kinds.setdefault(said, []).append(failed.place)
        for said, places in sorted(kinds.items(), key=lambda item: -len(item[1])):
            more = len(places) - SHOWN_FAILURES
            named = ", ".join(places[:SHOWN_FAILURES]) + (f" and {more:,} more" if more > 0 else "")
            yield _format_row("", f"{len(places):,}", said)
            yield _format_row("", "", named)
        if self.failed and self.instance_type is not None:
            yield f"{'':27}to see which rows failed, download the file and run --local --input FILE"
        if self.seconds is not None:
            start = ""
            if self.seconds_with_start is not None:
                start = (
                    f"{format_duration(self.seconds_with_start)} including the start of instances"
                )
            yield _format_row("time", format_duration(self.seconds), start)
        cost = "not known" if self.usd is None else f"${self.usd:,.4f}"
        yield _format_row("cost", cost, self.price)
        yield f"{'results':13}{self.output}"
        if self.status == "Completed" and not self.is_complete:
            why = "an empty line has no response, and code may combine several lines into one"
            yield f"The number of rows changed: {why}."


def _format_row(label: str, value: str, rest: str = "") -> str:
    return f"{label:10}{value:>14}   {rest}".rstrip()


def parse_failures(messages: Iterable[str]) -> tuple[FailedRequest, ...]:
    """Return the failed requests in a job's log, one for each object."""
    lines: dict[str, list[str]] = {}
    for message in messages:
        if found := _LOG_LINE.search(message):
            lines.setdefault(found["place"], []).append(found["text"])
    return tuple(parse_failure(place, texts) for place, texts in lines.items())


def parse_failure(place: str, lines: list[str]) -> FailedRequest:
    """Return a failed request from its kind and, after `MESSAGE`, the container's response.

    If the response is JSON, its "error" is the message.
    """
    words = lines.index(MESSAGE) + 1 if MESSAGE in lines else len(lines)
    message = " ".join(filter(None, lines[words:]))
    try:
        message = str(json.loads(message)["error"])
    except (ValueError, TypeError, LookupError):
        pass  # unchanged: from a different container, or truncated
    return FailedRequest(place=place, kind=lines[0], message=message)


def compute_cost(seconds: float, instances: int, price: Price) -> tuple[float, str]:
    """Return (cost in US dollars, what it was computed from)."""
    each = f"{instances:,} x {price.instance} at ${price.usd_per_hour:g} an hour ({price.region})"
    return seconds / 3600 * instances * price.usd_per_hour, each


RUNS = Path(".servable") / "batch"
AWS, LOCAL_AWS = "aws", "local AWS"
# With fewer rows, the slow first requests are much of the time.
FEW_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class MeasuredRate:
    """Records per second of one instance, and where they were measured."""

    rows_per_second: float
    rows: int | None
    """Rows of the run; None if it wasn't a run of a batch."""
    source: str


@dataclass(frozen=True, kw_only=True)
class BatchEstimate:
    """The estimated time and cost of a job that wasn't started; None for unknown values."""

    rows: int | None
    objects: int
    bytes_in: int
    rate: MeasuredRate | None
    seconds: float | None
    """Without the start of the instances."""
    usd: float | None
    price: str
    missing: tuple[str, ...]
    in_aws: bool

    def as_object(self) -> dict[str, Any]:
        return asdict(self)

    def format_lines(self) -> Iterator[str]:
        rows = "rows not counted" if self.rows is None else f"{self.rows:,} rows"
        yield f"{rows} in {format_count(self.objects, 'object')}, {self.bytes_in / 1e6:,.1f} MB"
        if self.seconds is not None:
            start = " plus 3 to 5 minutes to start instances, which isn't billed"
            yield f"time  about {format_duration(self.seconds)}{start if self.in_aws else ''}"
        if self.usd is not None:
            yield f"cost  about ${self.usd:,.4f}: {self.price}"
        if self.rate is not None:
            yield f"from  {self.rate.rows_per_second:,.0f} rows/s of one instance: {self.rate.source}"
            if self.rate.rows is not None and self.rate.rows < FEW_ROWS:
                yield f"      of {self.rate.rows:,} rows only; longer runs are faster per row"
        for missing in self.missing:
            yield f"cannot be told: {missing}"


def save_rate(root: Path, name: str, job: BatchJob, result: BatchResult) -> None:
    """Save the rate of a finished run in .servable/batch, for later estimates."""
    if result.status != "Completed" or not result.rows_in or not result.seconds:
        return
    file = create_private_folder(root / RUNS) / f"{result.job}.json"
    kept = {**result.as_object(), "batch": name, "failed": len(result.failed)}
    kept["instance_type"] = result.instance_type or job.batch.instance_type
    write_atomically(file, (json.dumps(kept, indent=1) + "\n").encode())


def find_measured_rate(
    root: Path, name: str, environment: Environment, job: BatchJob, where: str
) -> MeasuredRate | None:
    """Return the rate of the largest run of the same batch, instance type, and location.

    `name`: ENV and the batch's name, as passed to `save_rate`. If there is no such run in AWS, it
    is the rate of a variant with the same model and instance type, provided that [traffic] states
    how many rows its requests had.
    """
    wanted = (name, job.batch.instance_type, where)
    stored = (json.loads(file.read_bytes()) for file in sorted((root / RUNS).glob("*.json")))
    runs = [run for run in stored if (run["batch"], run["instance_type"], run["where"]) == wanted]
    if runs:
        run = sorted(runs, key=lambda each: each["rows_in"])[-1]
        # On this computer there is one instance.
        busy = min(run["instances"], run["objects_in"]) if where == AWS else 1
        rate, source = run["rows_in"] / run["seconds"] / busy, f"{run['job']}, {where}"
        return MeasuredRate(rows_per_second=rate, rows=run["rows_in"], source=source)
    rows = environment.traffic.rows_per_request
    if where != AWS or rows is None:
        return None
    for variant, stated in environment.variants_by_table.items():
        same = (stated.model, stated.instance_type) == (job.batch.model, job.batch.instance_type)
        if same and stated.scaling and (rps := stated.scaling.max_rps_per_instance):
            source = f"variants.{variant}.scaling.max_rps_per_instance, of {rows:g} rows each"
            return MeasuredRate(rows_per_second=rps * rows, rows=None, source=source)
    return None


def estimate_batch(
    environment: Environment,
    job: BatchJob,
    rate: MeasuredRate | None,
    rows: Sequence[int] | None,
    *,
    sizes: Sequence[int],
    in_aws: bool,
) -> BatchEstimate:
    """Compute the time and cost of a batch job.

    `rows`: the number of rows of each object; None: they were not counted. `sizes`: the bytes of
    each object.
    """
    batch, missing = job.batch, []
    seconds, usd, said = None, None, ""
    price = environment.prices.find_instance_price(batch.instance_type, environment.region)
    if rate is None:
        missing.append(
            f"no measured rate on {batch.instance_type}; run some rows first (--limit 20000), or "
            "measure a variant with this model and instance type (`servable load`, its "
            "scaling.max_rps_per_instance and [traffic] rows_per_request)"
        )
    if rows is None:
        missing.append("the rows weren't counted, because the input is too large or unreadable")
    elif rate is not None:
        # An object is never divided among instances.
        longest = max(sum(rows) / (min(batch.instances, len(rows)) if in_aws else 1), max(rows))
        seconds = max(longest / rate.rows_per_second, 1.0)
        if price is not None and in_aws:
            usd, said = compute_cost(seconds, batch.instances, price)
    if price is None and in_aws:
        unknown = f"no price of {batch.instance_type} is known"
        missing.append(f"{unknown}; set prices.instance_usd_per_hour")
    return BatchEstimate(
        rows=None if rows is None else sum(rows),
        objects=len(sizes),
        bytes_in=sum(sizes),
        rate=rate,
        seconds=seconds,
        usd=usd,
        price=said,
        missing=tuple(missing),
        in_aws=in_aws,
    )
