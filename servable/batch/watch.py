"""Start a transform job, follow it until it ends, and count its rows."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from infra.parameters.batch.job import TRIALS
from infra.parameters.environment import Environment
from infra.preflight.rendering import format_count
from servable.batch.objects import MOST_COUNTED_BYTES, BatchError, TransformObjects
from servable.batch.result import AWS, LOCAL_AWS, BatchResult, compute_cost, parse_failures
from servable.console.lines import format_duration, show_progress_line
from servable.project.account import Account, Answered, AwsError, is_not_found

LOG_GROUP = "/aws/sagemaker/TransformJobs"
# The log in which SageMaker's agent writes the result of each object.
_DATA_LOG = "data-log"
_ENDED = ("Completed", "Failed", "Stopped")
_POLL_SECONDS, _LOCAL_POLL_SECONDS = 5.0, 0.2
# How long to wait for a response of AWS: the job continues in the meantime.
_PATIENCE_SECONDS = 120.0
_MOST_EVENTS = 10_000


class UnknownJobError(Exception):
    """The error if the job's outcome can't be determined. `str()` is the reason and what to do."""


class TransformWatch:
    """A transform job, identified by its name. DescribeTransformJob returns its request."""

    def __init__(
        self, account: Account, job: str, again: str, *, request: Mapping[str, Any] | None = None
    ) -> None:
        """Start the job if its request is given.

        Raises `UnknownJobError`, `BatchError`. `again`: the command that follows the job again.
        """
        self._account, self._job, self._again = account, job, again
        self._poll_seconds = _LOCAL_POLL_SECONDS if account.has_custom_endpoint else _POLL_SECONDS
        if request is not None:
            try:
                account.client("sagemaker").create_transform_job(**request)
            except ClientError as error:
                raise BatchError(
                    f"{job} cannot be started: {error}; the caller needs "
                    "sagemaker:CreateTransformJob and the model of this stack"
                ) from None
            except AwsError as error:  # AWS's response is lost, and the job may run
                raise UnknownJobError(self._explain_lost_job(error)) from None
        self.shown = self._describe()
        open_objects = partial(TransformObjects, account.client("s3"), self.shown)
        self._objects = self._call_with_retries(open_objects)
        self._rows: dict[str, int] = {}
        self._counting = threading.Thread(target=self._count_rows, name="count rows", daemon=True)
        self._counted = self._objects.size <= MOST_COUNTED_BYTES
        if self._counted:
            self._counting.start()

    def follow(self) -> None:
        """Wait until the job has ended, and show its progress. Raises `UnknownJobError`."""
        with show_progress_line() as show:
            while self.shown["TransformJobStatus"] not in _ENDED:
                done = set(self._call_with_retries(self._list_results))
                show(lambda done=done: self._describe_progress(done))  # type: ignore[misc]
                time.sleep(self._poll_seconds)
                self.shown = self._describe()

    def _describe_progress(self, done: set[str]) -> str:
        inputs, status = self._objects.inputs, self.shown["TransformJobStatus"]
        through = [item for item in inputs if item.name in done]
        rows = sum(self._rows.get(item.name, 0) for item in through)
        all_rows = sum(self._rows.values())
        said = f"{status}: {len(through):,} of {format_count(len(inputs), 'object')}"
        if self._counted and len(self._rows) == len(inputs):
            said += f", {rows:,} of {all_rows:,} rows"
        started = self.shown.get("TransformStartTime")
        if started is None:
            return f"{said}; starting instances, which takes 3 to 5 minutes in AWS"
        seconds = max(0.0, (datetime.now(UTC) - started).total_seconds())
        share = sum(item.size for item in through) / max(self._objects.size, 1)
        left = f"about {format_duration(seconds / share - seconds)} left" if 0 < share < 1 else ""
        left = left or "each object's result is written when all its rows are done"
        return f"{said}; {format_duration(seconds)}; {left}"

    def fetch_result(self, environment: Environment) -> BatchResult:
        """Return the job's result with the counted rows. Raises `UnknownJobError`."""
        return self._call_with_retries(lambda: self._build_result(environment))

    def remove_trial(self) -> None:
        """Remove the copy of the first records, if the job read one. Raises `UnknownJobError`."""
        source = self.shown["TransformInput"]["DataSource"]["S3DataSource"]
        if f"/{TRIALS}/" in source["S3Uri"]:
            self._call_with_retries(self._objects.remove_input)

    def _build_result(self, environment: Environment) -> BatchResult:
        shown, resources = self.shown, self.shown["TransformResources"]
        results, local = self._list_results(), self._account.has_custom_endpoint
        rows_in, rows_out, not_counted = self._count_all(results)
        began, ended = shown.get("TransformStartTime"), shown.get("TransformEndTime")
        seconds = (ended - began).total_seconds() if began and ended else None
        kind, count = resources["InstanceType"], resources["InstanceCount"]
        price = environment.prices.find_instance_price(kind, environment.region)
        has_failed = shown["TransformJobStatus"] == "Failed"
        usd, said = None, f"no price of {kind} is known; set prices.instance_usd_per_hour"
        if local:
            usd, said = 0.0, "on this computer"
        elif price is not None and seconds is not None:
            usd, said = compute_cost(seconds, count, price)
        return BatchResult(
            job=self._job,
            status=shown["TransformJobStatus"],
            reason=shown.get("FailureReason"),
            where=LOCAL_AWS if local else AWS,
            instance_type=kind,
            instances=count,
            objects_in=len(self._objects.inputs),
            objects_out=len(results),
            bytes_in=self._objects.size,
            rows_in=rows_in,
            rows_out=rows_out,
            not_counted=not_counted,
            failed=parse_failures(self._iterate_messages()) if has_failed else (),
            seconds=seconds,
            seconds_with_start=(ended - shown["CreationTime"]).total_seconds() if ended else None,
            usd=usd,
            price=said,
            output=shown["TransformOutput"]["S3OutputPath"],
        )

    def _count_all(self, results: Mapping[str, int]) -> tuple[int | None, int | None, str | None]:
        """Return the rows of the input and of the results, and why one of them is None."""
        if not self._counted or sum(results.values()) > MOST_COUNTED_BYTES:
            return None, None, f"the input has more than {MOST_COUNTED_BYTES / 1e9:g} GB"
        self._counting.join()
        rows_in: int | None = sum(self._rows.values())
        rows_out, why = None, None
        if len(self._rows) != len(self._objects.inputs):
            rows_in, why = None, "cannot read the input"
        try:
            rows_out = self._objects.count_output_records(results)
        except ValueError as error:
            why = str(error)
        if rows_out is None and why is None:
            accept = self.shown["TransformOutput"].get("Accept", "no Accept")
            why = f"responses of type {accept} don't show how many rows they cover"
        return rows_in, rows_out, why

    def _list_results(self) -> dict[str, int]:
        since: datetime = self.shown["CreationTime"]
        # The clock of the local AWS may run ahead of its S3's: then all results are this job's.
        if self._account.has_custom_endpoint and since > datetime.now(UTC):
            since = datetime(1970, 1, 1, tzinfo=UTC)
        return self._objects.list_results(since)

    def _iterate_messages(self) -> Iterator[str]:
        """Return the messages of SageMaker's agent about each object, of up to `_MOST_EVENTS` events."""
        events = self._account.list_or_empty(
            "logs",
            "filter_log_events",
            "events",
            logGroupName=LOG_GROUP,
            logStreamNamePrefix=f"{self._job}/",
            PaginationConfig={"MaxItems": _MOST_EVENTS},
        )
        return (e["message"] for e in events if e["logStreamName"].endswith(_DATA_LOG))

    def _count_rows(self) -> None:
        for item in self._objects.inputs:
            try:
                self._rows[item.name] = self._objects.count_input_records(item)
            except (*AwsError, BatchError, OSError):
                return  # the result reports it

    def _describe(self) -> dict[str, Any]:
        client = self._account.client("sagemaker")
        name = self._job
        return self._call_with_retries(lambda: client.describe_transform_job(TransformJobName=name))

    def _call_with_retries(self, call: Callable[[], Answered]) -> Answered:
        """Return the response of an AWS call, retrying for a while if none comes.

        Raises `UnknownJobError` if none comes, or if AWS returns an error.
        """
        until = time.monotonic() + (0.0 if self._account.has_custom_endpoint else _PATIENCE_SECONDS)
        while True:
            try:
                return call()
            except AwsError as error:
                if isinstance(error, ClientError) and is_not_found(error):
                    raise UnknownJobError(
                        f"there is no transform job {self._job} here: it was not started, or it ended with "
                        "the local AWS that ran it; start it again without --attach"
                    ) from None
                if time.monotonic() >= until or isinstance(error, ClientError):
                    raise UnknownJobError(self._explain_lost_job(error)) from None
            time.sleep(self._poll_seconds)

    def _explain_lost_job(self, error: Exception) -> str:
        if not self._account.has_custom_endpoint or isinstance(error, ClientError):
            unknown = f"cannot read the state of {self._job}, which may still be running"
            return f"{unknown}: {error}; {self._again}"
        return (
            f"the local AWS has ended, and with it {self._job}: its results so far and the buckets are lost, "
            "because they exist only while it runs. Run `servable local up` again, deploy, "
            "upload the table, and start the batch again"
        )
