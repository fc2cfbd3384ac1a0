"""Time and cost of a job beforehand, from measured rates: of earlier runs, else of a variant."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.parameters.batch.job import BatchJob
from infra.parameters.environment import Environment
from model_packaging.beside import private_folder, write_beside
from servable.batch.result import BatchResult, counted, priced
from servable.console.lines import duration

RUNS = Path(".servable") / "batch"
AWS = "aws"
# With fewer rows the first requests, which are slow, are much of the time.
FEW_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class MeasuredRate:
    """Records per second of one instance, and where they were measured."""

    rows_per_second: float
    rows: int | None
    """Rows of the run; None if it was no run of a batch."""
    source: str


@dataclass(frozen=True, kw_only=True)
class BatchEstimate:
    """Time and cost of a job that was not started; None for what cannot be told."""

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

    def lines(self) -> Iterator[str]:
        rows = "rows not counted" if self.rows is None else f"{self.rows:,} rows"
        yield f"{rows} in {counted(self.objects, 'object')}, {self.bytes_in / 1e6:,.1f} MB"
        if self.seconds is not None:
            start = "; instances start in 3 to 5 minutes, unpaid" if self.in_aws else ""
            yield f"time  about {duration(self.seconds)}{start}"
        if self.usd is not None:
            yield f"cost  about ${self.usd:,.4f}: {self.price}"
        if self.rate is not None:
            yield f"from  {self.rate.rows_per_second:,.0f} rows/s of one instance: {self.rate.source}"
            if self.rate.rows is not None and self.rate.rows < FEW_ROWS:
                yield f"      of {self.rate.rows:,} rows only: a longer run is faster by the row"
        for missing in self.missing:
            yield f"cannot be told: {missing}"


def keep_rate(root: Path, name: str, job: BatchJob, result: BatchResult) -> None:
    """Keep the rate of a finished run in .servable/batch, for the estimates after it."""
    if result.status != "Completed" or not result.rows_in or not result.seconds:
        return
    file = private_folder(root / RUNS) / f"{result.job}.json"
    kept = {**result.as_object(), "batch": name, "failed": len(result.failed)}
    kept["instance_type"] = result.instance_type or job.batch.instance_type
    write_beside(file, (json.dumps(kept, indent=1) + "\n").encode())


def measured_rate(
    root: Path, name: str, environment: Environment, job: BatchJob, where: str
) -> MeasuredRate | None:
    """The rate of the run with the most rows, of the same batch on the same instance type and place.

    `name`: ENV and the batch's name, as `keep_rate` has it. Without one, in AWS: that of a variant with the
    same model and instance type, if [traffic] says how many rows its requests had.
    """
    best: MeasuredRate | None = None
    for file in sorted((root / RUNS).glob("*.json")):
        run = json.loads(file.read_bytes())
        if (run["batch"], run["instance_type"], run["where"]) != (
            name,
            job.batch.instance_type,
            where,
        ):
            continue
        # On this computer all instances are one.
        busy = min(run["instances"], run["objects_in"]) if where == AWS else 1
        if best is None or run["rows_in"] >= (best.rows or 0):
            best = MeasuredRate(
                rows_per_second=run["rows_in"] / run["seconds"] / busy,
                rows=run["rows_in"],
                source=f"{run['job']}, {where}",
            )
    rows = environment.traffic.rows_per_request
    if best is not None or where != AWS or rows is None:
        return best
    for variant, stated in environment.tables.items():
        same = (stated.model, stated.instance_type) == (job.batch.model, job.batch.instance_type)
        if same and stated.scaling and (rps := stated.scaling.max_rps_per_instance):
            source = f"variants.{variant}.scaling.max_rps_per_instance, of {rows:g} rows each"
            return MeasuredRate(rows_per_second=rps * rows, rows=None, source=source)
    return None


def estimate(
    environment: Environment,
    job: BatchJob,
    rate: MeasuredRate | None,
    rows: Sequence[int] | None,
    *,
    sizes: Sequence[int],
    in_aws: bool,
) -> BatchEstimate:
    """Compute time and cost. `rows`: those of each object; None: they were not counted.

    `sizes`: bytes of each object.
    """
    batch, missing = job.batch, []
    seconds = usd = None
    price, said = environment.prices.instance(batch.instance_type, environment.region), ""
    if rate is None:
        missing.append(
            f"no rate of it was measured on {batch.instance_type}; run a part first (--limit 20000), or "
            "measure a variant with this model and instance type (`servable load`, its "
            "scaling.max_rps_per_instance and [traffic] rows_per_request)"
        )
    if rows is None:
        missing.append("the rows were not counted: the input is too large, or cannot be read")
    if rate is not None and rows is not None:
        # An object is never divided among instances.
        instances = min(batch.instances, len(rows)) if in_aws else 1
        longest = max(sum(rows) / instances, max(rows))
        seconds = max(longest / rate.rows_per_second, 1.0)
    if price is None and in_aws:
        missing.append(
            f"no price of {batch.instance_type} is known: write prices.instance_usd_per_hour"
        )
    elif seconds is not None and price is not None and in_aws:
        usd, said = priced(seconds, batch.instances, price)
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
